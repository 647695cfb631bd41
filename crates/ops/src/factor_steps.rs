//! The arithmetic of the steps of factorisations, element by element.
//!
//! The ops read these formulas as maps; a backend with a fused form of several steps
//! ([`Fused`](crate::backend::Fused)) reads the same ones as numbers, so both have the same bits.

/// Jacobi rotations of two rows x and y.
pub mod rotation {
    use crate::lane::Lane;

    /// The tangent of the angle by which rows with the squares a and b and the product c become
    /// orthogonal; 0 if they are, to rounding.
    #[inline(always)]
    pub fn tangent<L: Lane>([a, b, c]: [L; 3]) -> L {
        let one = L::lit(1.0);
        let eps = if L::bits() == 64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let zeta = (b - a) / (c + c);
        let t = one.copysign(zeta) / (zeta.abs() + zeta.fma(zeta, one).sqrt());
        L::select(c.abs().le(L::lit(eps) * (a.sqrt() * b.sqrt())), L::lit(0.0), t)
    }

    /// The cosine of the angle with this tangent.
    #[inline(always)]
    pub fn cosine<L: Lane>(t: L) -> L {
        L::lit(1.0) / t.fma(t, L::lit(1.0)).sqrt()
    }

    /// The sine of the angle with this tangent.
    #[inline(always)]
    pub fn sine<L: Lane>(t: L) -> L {
        t / t.fma(t, L::lit(1.0)).sqrt()
    }

    /// An element after the rotation, of itself and that of the other row: (x, y) becomes
    /// (s x + c y, c x - s y).
    #[inline(always)]
    pub fn rotated<L: Lane>(x: L, other: L, cos: L, sin: L) -> L {
        other.fma(cos, x * sin)
    }
}

/// Elimination of a column below its pivot.
pub mod elimination {
    use crate::lane::Lane;

    /// The factor of a row, of its element and the pivot: 0 where both are.
    #[inline(always)]
    pub fn factor<L: Lane>(x: L, pivot: L) -> L {
        let zero = L::lit(0.0);
        L::select(pivot.eq(zero) & x.eq(zero), zero, x / pivot)
    }

    /// An element x of a row with element l in the column of the pivot p, below the element r of
    /// its row.
    #[inline(always)]
    pub fn substituted<L: Lane>(x: L, l: L, r: L, p: L) -> L {
        (-l).fma(r / p, x)
    }

    /// An element x of a row with factor l, below the element u of the pivot's row.
    #[inline(always)]
    pub fn eliminated<L: Lane>(x: L, l: L, u: L) -> L {
        (-l).fma(u, x)
    }
}
