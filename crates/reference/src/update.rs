//! Updates: a formula that changes tensors in place.

use crate::compute::{Compute, each_float, misuse};
use crate::map::{floats, slices_of};
use elinvar_core::host::with_capacity;
use elinvar_core::{Element, HostData, Layout, Result, each_data};
use elinvar_ops::backend::Changed;
use elinvar_ops::update::UpdateObject;
use elinvar_simd::compiled_update::UpdateFloat;

type Item<'a> = elinvar_ops::backend::UpdateItem<'a, crate::Reference>;

/// The formula at every element of every item. All results are computed before the first is
/// written.
pub fn update(u: &dyn UpdateObject, items: Vec<Item<'_>>) -> Result<()> {
    let mut made = with_capacity(items.len())?;
    for item in &items {
        made.push(results(u, item)?);
    }
    for (item, made) in items.into_iter().zip(made) {
        for (Changed { buffer, .. }, new) in item.changes.into_iter().zip(made) {
            each_data!(&new, new => put(buffer, new));
        }
    }
    Ok(())
}

/// The new values of an item, as they are stored.
fn results(u: &dyn UpdateObject, item: &Item<'_>) -> Result<Vec<HostData>> {
    if let Some(x) = item.changes.iter().find(|x| x.buffer.dtype() != x.dtype) {
        return Err(misuse("an update of memory of another type", x.buffer.dtype()));
    }
    each_float!(u.name(), item.dtype, C => {
        let layout = Layout::contiguous(item.shape.clone());
        let load = |x: &Changed<'_, crate::Reference>| Ok(C::load(x.buffer, &layout)?.into_owned());
        let mut x = item.changes.iter().map(load).collect::<Result<Vec<Vec<C>>>>()?;
        let read = floats::<C>(&item.reads)?;
        let mut changed: Vec<&mut [C]> = x.iter_mut().map(|x| &mut x[..]).collect();
        C::update_loops(u).plain(&mut changed, &slices_of(&read));
        x.into_iter().zip(&item.changes).map(|(new, x)| C::store(new, x.dtype)).collect()
    })
}

/// Writes over the first elements of memory of the same type.
fn put<T: Element>(to: &mut HostData, new: &[T]) {
    T::slice_mut(to).expect("the type was looked at")[..new.len()].copy_from_slice(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, view};
    use elinvar_core::{DType, bf16};
    use elinvar_ops::lane::Lane;
    use elinvar_ops::update::{CompiledUpdate, Update, Updating};

    /// (a, b) by c: (a + c, a * b).
    #[derive(Clone, Copy, Debug)]
    struct Both;
    impl Update<2, 1> for Both {
        const NAME: &'static str = "both";
        fn lane<L: Lane>(&self, [a, b]: [L; 2], [c]: [L; 1]) -> [L; 2] {
            [a + c, a * b]
        }
    }
    elinvar_ops::compile_update! { 2 1 Both; }

    fn item<'a>(
        a: &'a mut HostData,
        b: &'a mut HostData,
        c: (&'a HostData, &'a Layout),
        dtype: DType,
    ) -> Item<'a> {
        let (da, db) = (a.dtype(), b.dtype());
        let changes = [Changed { buffer: a, dtype: da }, Changed { buffer: b, dtype: db }];
        Item::new(c.1.shape().clone(), dtype, changes, [view(c.0, c.1)])
    }

    #[test]
    fn results_take_the_place_of_what_they_were_computed_from() {
        // The second result uses the old a. 1 + 2^-9 and -2 + 2^-9 are no bf16: they round to 1
        // and -2. Elements beyond the shape are unchanged.
        let mut a = HostData::BF16([1.0, -2.0, 8.0].map(bf16::from_f32).into());
        let mut b = HostData::F32([3.0, 0.5, 7.0].into());
        let c = HostData::BF16([2f32.powi(-9)].map(bf16::from_f32).into());
        let l = layout(&[1]).broadcast_to(layout(&[2]).shape(), "t").unwrap();
        update(Both::object(&Updating(Both)), vec![item(&mut a, &mut b, (&c, &l), DType::F32)]).unwrap();
        assert_eq!(a, HostData::BF16([1.0, -2.0, 8.0].map(bf16::from_f32).into()));
        assert_eq!(b, HostData::F32([3.0, -1.0, 7.0].into()));
    }

    #[test]
    fn nothing_is_written_if_one_item_does_not_fit() {
        let (mut a, mut b) = (HostData::F64([1.0].into()), HostData::F64([2.0].into()));
        let (mut x, mut y) = (HostData::F64([1.0].into()), HostData::F32([2.0].into()));
        let c = HostData::F64([4.0].into());
        let l = layout(&[1]);
        let items =
            vec![item(&mut a, &mut b, (&c, &l), DType::F64), item(&mut x, &mut y, (&c, &l), DType::F64)];
        assert!(update(Both::object(&Updating(Both)), items).is_err());
        assert_eq!((a, b), (HostData::F64([1.0].into()), HostData::F64([2.0].into())));
    }
}
