"""TAK, task arithmetic with Kronecker-factored curvature."""
