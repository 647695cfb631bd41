//! eigvalsh: eigenvalues of symmetric matrices.

use super::eigh;
use crate::prelude::*;

/// The eigenvalues of symmetric matrices `x`, ascending. Only the lower triangle is read, or the
/// `upper` one.
///
/// x: [.., n, n]   result: [.., n]
///
/// # Errors
/// As [`eigh`](fn@super::eigh).
pub fn eigvalsh<V: Value>(x: &V, upper: bool) -> Result<V> {
    autocast!("eigvalsh", x => eigvalsh(x, upper));
    Ok(eigh::run("eigvalsh", x, upper)?.0)
}

/// By name: operand x; attribute UPLO (absent: L).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![eigvalsh(a.input("x")?, eigh::upper(a)?)?])
}
