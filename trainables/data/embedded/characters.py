"""Which characters are classes of the glyphs benchmark and which ones the small ViT was pre-trained on.

All of them are drawn by every face of `drawing`. The two sets are disjoint, hold no digit, and no two characters of
their union (or a digit) look alike: scaled to the same box, each pair differs by more than 35 % of the ink's norm in
DejaVu Sans, DejaVu Serif and STIX alike. So Latin A stands here and Greek Alpha does not.
"""

# 100 classes in order of their code points: 10 tasks of 10.
BENCHMARK = "'*+>?@ADELNOSTVWX[abdfknrty¢£¦¬®°±×÷œƕƺƾɐɑɒɕɘɞɣɤɥɬɮɯɰɱɳɷɸɹɿʁʂʈʊʐʑʔʕʗʣʦʧΦΨΩβγζξςχϙϞϟϠЉЋДЛШЫЮицыьѢѣ†‱∂"

PRETRAINING = (
    '"#$%&()/<=BCFGHIJKMPQRUYZ\\]ceghijlmopqsuvwxz{}~'
    "¡¤¥§©ªµ¶º¿ÀÄÅÆÇÈËÌÍÎÏÑÒÖØÙÜÝÞßàáâãäåæçèéêëìíîïðñòóôõøùúûüýþÿ"
    "āĄąĆćĉċĎďēėĘęĜĝğġĢĤĥĩīĬĭĮįıĲĳĴĵĶķĸĹĺĻļľŀńŅņŉŊŋōőŒŔŕŖŗřŚśŝŞşŢţŤťŧũŮůűŲųŴŵŷŸŹźż"
    "ƈƐƒƛƞơƪƭƯưƻǁǂǃǼǽǾǿɔɖɗəɚɛɜɝɟɠɢɦɧɩɫɭɲɴɺɻɼɽɾʀʃʅʆʇʋʌʍʎʏʒʓʖʚʛʜʝʞʟʠʤʥʨ"
    "ΆΈΉΊΎΏΐΓΔΞΣάέήίΰαδθνστφψωϊϋύώϐϑϒϖϘϚϛϝϡϰϱ"
    "ЂЃЊЌЎЏБЖИЙКУЧЩЪЬЭЯбгджйлтфчшщъэђѓљћќџѲҐґẁỳ„‡…‰€№™ﬂ"
)
