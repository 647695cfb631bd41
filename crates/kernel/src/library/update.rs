//! `x[i], .. = formula(x[i], .., read[i], ..)`: numbers that change where they lie, an item a launch.
//!
//! Elements are given to invocations as in `map`: vectors of four if nothing that is read is strided. An invocation loads
//! all numbers of an element before it stores one, and no other touches them.
//!
//! Buffers are those of all numbers that change and that are read; a device that allows fewer storage buffers to a kernel
//! takes the formula step by step, as maps. **Several items in one launch** need no other kernel body: with all that changes
//! in one piece of memory, and likewise all that is read, an item is a row of offsets and sizes in the buffer of numbers,
//! and a workgroup finds its row by the number of its first element.

use super::formula::Compute;
use super::map::{self, Choice, Form};
use super::{Key, Work, numbers};
use crate::build::{Builder, Val};
use crate::ir::{Access, Elem, Kernel, Place};
use crate::lane::{Float, Term, W32, W64};
use elinvar_core::{DType, Layout, Shape};
use elinvar_ops::update::Update;

/// A formula that changes numbers, and writes its instructions into a kernel.
pub trait Change {
    /// A word for kernels.
    fn name(&self) -> String;
    /// The key of a kernel that this formula is in, from the key of what is around it.
    fn key(&self, around: Key) -> Key;
    /// How many numbers change.
    fn changes(&self) -> usize;
    /// The new numbers from the old ones and from what is read, all of the computed type.
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Vec<Val<'k>>;
}

/// An update as a formula.
#[derive(Clone, Copy, Debug)]
pub struct OfUpdate<U, const M: usize, const R: usize>(pub U);

impl<U: Update<M, R>, const M: usize, const R: usize> Change for OfUpdate<U, M, R> {
    fn name(&self) -> String {
        U::NAME.to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with_formula(&self.0)
    }
    fn changes(&self) -> usize {
        M
    }
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Vec<Val<'k>> {
        let t = |i: usize| Term::Value(x[i]);
        match c {
            Compute::F32 => {
                let (old, read) = (
                    std::array::from_fn(|i| Float::<W32>::new(t(i))),
                    std::array::from_fn(|i| Float::new(t(M + i))),
                );
                self.0.lane(old, read).map(|y| y.0.value(k)).to_vec()
            }
            Compute::F64 => {
                let (old, read) = (
                    std::array::from_fn(|i| Float::<W64>::new(t(i))),
                    std::array::from_fn(|i| Float::new(t(M + i))),
                );
                self.0.lane(old, read).map(|y| y.0.value(k)).to_vec()
            }
            Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => {
                unreachable!("{}: a formula on floats, not {c:?}", U::NAME)
            }
        }
    }
}

/// The work of an item of an update, computed in `dtype`: what changes (row-major from the first element on), then what is
/// read (views of `shape`). `None` if there are no elements.
pub fn update<'a>(
    f: &'a dyn Change,
    dtype: DType,
    shape: &Shape,
    changes: &[DType],
    reads: &[(&Layout, DType)],
) -> Option<Work<'a>> {
    let own = Layout::contiguous(shape.clone());
    let operands: Vec<(&Layout, DType)> =
        changes.iter().map(|&d| (&own, d)).chain(reads.iter().copied()).collect();
    // It has no results beside what changes.
    let (form, sizes) = map::plan(&[], &operands, Choice::default())?;
    let key = f.key(Key::of("update").with(&(dtype, &form)));
    let (scalar, all, groups) = (form.scalar(), map::numbers_of(&form, &sizes), form.groups(&sizes));
    Some(numbers::work(key, move || build(f, dtype, &form), groups, scalar, &all))
}

/// The kernel of a form.
pub fn build(f: &dyn Change, dtype: DType, form: &Form) -> Kernel {
    let name = format!("update_{}{}", f.name(), form.words());
    let k = Builder::new(&name, [map::GROUP, 1, 1]);
    let place = |(i, (elem, _)): (usize, &(Elem, map::Walk))| {
        if i < f.changes() {
            k.buffer(&format!("x{i}"), *elem, Access::ReadWrite)
        } else {
            k.buffer(&format!("r{}", i - f.changes()), *elem, Access::Read)
        }
    };
    let places: Vec<Place> = form.operands.iter().enumerate().map(place).collect();
    let c = Compute::from(dtype);
    map::elements(&k, form, &places, |ends, x| {
        let x: Vec<Val> = x.iter().map(|&v| c.enter(v)).collect();
        let new = f.emit(&k, c, &x);
        let new: Vec<Val> = new.into_iter().map(|v| v.splat(form.width)).collect();
        ends.store(&places[..new.len()], &new);
    });
    k.finish()
}
