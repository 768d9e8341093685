"""The study behind docs/explanation/curvature.md.

It compares the diagonal, Kronecker factors and no regulariser in ITA and IEL, and TAK.
"""
