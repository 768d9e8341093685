"""The study behind docs/curvature.md: the diagonal, Kronecker factors and no regulariser in ITA and IEL, and TAK."""
