"""The characters of the drawn benchmarks and of the small ViT's pre-training.

Every face of `drawing` has all of them. The two sets are disjoint and have no digit. No two of these characters or
digits look alike: scaled to the same box, each pair differs by more than 35 % of the ink's norm in DejaVu Sans, DejaVu
Serif and STIX alike. So the sets have Latin A and not Greek Alpha.
"""

# 100 classes in order of their code points: 10 tasks of 10.
BENCHMARK = "'*+>?@ADELNOSTVWX[abdfknrty¢£¦¬®°±×÷œƕƺƾɐɑɒɕɘɞɣɤɥɬɮɯɰɱɳɷɸɹɿʁʂʈʊʐʑʔʕʗʣʦʧΦΨΩβγζξςχϙϞϟϠЉЋДЛШЫЮицыьѢѣ†‱∂"

LETTERS = "ΦΨΩβγζξςχϠЉЋДЛШЫЮицѢ"  # of those, so the backbone has not seen them

PRETRAINING = (
    '"#$%&()/<=BCFGHIJKMPQRUYZ\\]ceghijlmopqsuvwxz{}~'
    "¡¤¥§©ªµ¶º¿ÀÄÅÆÇÈËÌÍÎÏÑÒÖØÙÜÝÞßàáâãäåæçèéêëìíîïðñòóôõøùúûüýþÿ"
    "āĄąĆćĉċĎďēėĘęĜĝğġĢĤĥĩīĬĭĮįıĲĳĴĵĶķĸĹĺĻļľŀńŅņŉŊŋōőŒŔŕŖŗřŚśŝŞşŢţŤťŧũŮůűŲųŴŵŷŸŹźż"
    "ƈƐƒƛƞơƪƭƯưƻǁǂǃǼǽǾǿɔɖɗəɚɛɜɝɟɠɢɦɧɩɫɭɲɴɺɻɼɽɾʀʃʅʆʇʋʌʍʎʏʒʓʖʚʛʜʝʞʟʠʤʥʨ"
    "ΆΈΉΊΎΏΐΓΔΞΣάέήίΰαδθνστφψωϊϋύώϐϑϒϖϘϚϛϝϡϰϱ"
    "ЂЃЊЌЎЏБЖИЙКУЧЩЪЬЭЯбгджйлтфчшщъэђѓљћќџѲҐґẁỳ„‡…‰€№™ﬂ"
)
