//! Exchanges of rows, as LAPACK counts them, as orders of rows.
//!
//! Each exchange is an order of all rows. Orders are composed in pairs, so that n of them take
//! log n gathers, where one after the other would take n.

use crate::catalogue::{concat, eq, gather, narrow, reshape, unsqueeze, view, where_};
use crate::prelude::*;

/// For each exchange of the rows `first` and `second` [b, k] an order of m rows: [b, k, m].
pub(in crate::catalogue) fn orders<V: Value>(first: &V, second: &V, m: usize) -> Result<V> {
    let row = view::numbers(first, m, 0..m as i64)?;
    let (first, second) = (unsqueeze(first, -1)?, unsqueeze(second, -1)?);
    where_(&eq(&row, &first)?, &second, &where_(&eq(&row, &second)?, &first, &row)?)
}

/// The order [b, m] that all exchanges leave, of their orders [b, k, m]; k is not 0.
pub(in crate::catalogue) fn composed<V: Value>(orders: &V) -> Result<V> {
    let &[b, _, m] = &orders.shape()[..] else { unreachable!("orders of a batch") };
    let mut all = orders.clone();
    loop {
        let k = all.shape()[1];
        if k == 1 {
            return reshape::to_shape(&all, &Shape::new(&[b, m])?);
        }
        let h = k / 2;
        let pairs = reshape::to_shape(&narrow(&all, 1, 0, 2 * h)?, &Shape::new(&[b, h, 2, m])?)?;
        let both = gather(&narrow(&pairs, 2, 0, 1)?, 3, &narrow(&pairs, 2, 1, 1)?)?;
        let both = reshape::to_shape(&both, &Shape::new(&[b, h, m])?)?;
        all = if k == 2 * h { both } else { concat(&[&both, &narrow(&all, 1, 2 * h as isize, 1)?], 1)? };
    }
}

/// For each exchange the order that those after it leave: [b, k, m], of orders [b, k, m].
pub(in crate::catalogue) fn after_each<V: Value>(orders: &V) -> Result<V> {
    let &[b, k, m] = &orders.shape()[..] else { unreachable!("orders of a batch") };
    let own = view::numbers(orders, m, 0..m as i64)?;
    let own = crate::catalogue::expand(&own, &Shape::new(&[b, 1, m])?)?;
    let mut all = if k == 1 { own } else { concat(&[&narrow(orders, 1, 1, k - 1)?, &own], 1)? };
    let mut distance = 1;
    while distance < k {
        let rest = k - distance;
        let both = gather(&narrow(&all, 1, 0, rest)?, 2, &narrow(&all, 1, distance as isize, rest)?)?;
        all = concat(&[&both, &narrow(&all, 1, rest as isize, distance)?], 1)?;
        distance *= 2;
    }
    Ok(all)
}
