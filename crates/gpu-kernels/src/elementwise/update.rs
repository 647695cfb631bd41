//! Updates in place (optimiser steps): `x[i], .. = formula(x[i], .., read[i], ..)`, one tensor or
//! several per launch (multi-tensor apply).
//!
//! Elements are given to invocations as in `map`: vectors of four if nothing that is read is
//! strided. An invocation loads all values of an element before it stores one, and no other touches
//! them.
//!
//! A model has many small parameters, and a launch for each would cost more than the work. Items of
//! one signature (same types, nothing strided) share a launch: each has workgroups and buffers of
//! its own, a workgroup looks up its item, and the formula stands in the kernel once, between the
//! loads of all items and their stores.

use super::map::{self, MapChoice, MapConfig, ReadPattern, VectorTail};
use crate::formula::Compute;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout, Shape};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Place, Scalar};
use elinvar_kernel::lane::{Float, Term, W32, W64};
use elinvar_ops::update::UpdateObject;

/// The instructions of an update: the new numbers from the old ones and from what is read, all of
/// the computed type.
fn emit<'k>(f: &dyn UpdateObject, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Vec<Val<'k>> {
    match c {
        Compute::F32 => {
            let x: Vec<Float<'k, W32>> = x.iter().map(|&x| Float::new(Term::Value(x))).collect();
            f.record(32).replay(&x).into_iter().map(|y| y.0.value(k)).collect()
        }
        Compute::F64 => {
            let x: Vec<Float<'k, W64>> = x.iter().map(|&x| Float::new(Term::Value(x))).collect();
            f.record(64).replay(&x).into_iter().map(|y| y.0.value(k)).collect()
        }
        Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => {
            unreachable!("{}: a formula on floats, not {c:?}", f.name())
        }
    }
}

/// Numbers of one shape that change together, with those that are read for it.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// The shape of all of them.
    pub shape: Shape,
    /// In which is computed: f32 or f64.
    pub dtype: DType,
    /// What changes, row-major from the first element on.
    pub changes: Vec<DType>,
    /// What is read: views of `shape`.
    pub reads: Vec<(&'a Layout, DType)>,
}

/// The work of an item: what changes, then what is read. `None` if there are no elements.
pub fn update<'a>(f: &'a dyn UpdateObject, item: &Item<'_>) -> Option<Work<'a>> {
    let (own, dtype) = (Layout::contiguous(item.shape.clone()), item.dtype);
    let operands: Vec<(&Layout, DType)> =
        item.changes.iter().map(|&d| (&own, d)).chain(item.reads.iter().copied()).collect();
    // It has no results beside what changes.
    let (config, sizes) = map::plan(&[], &operands, MapChoice::default())?;
    let key = Key::of("update").with(&(dtype, &config)).with(&f.key());
    let (scalar, all, groups) = (config.scalar(), map::args_of(&config, &sizes), config.groups(&sizes));
    Some(args::work(key, move || build(f, dtype, &config), groups, scalar, &all))
}

/// The kernel of a form.
pub fn build(f: &dyn UpdateObject, dtype: DType, config: &MapConfig) -> Kernel {
    let name = format!("update_{}{}", f.name(), config.words());
    let k = Builder::new(&name, [map::BLOCK_THREADS, 1, 1]);
    let place = |(i, (elem, _)): (usize, &(Elem, ReadPattern))| {
        if i < f.changes() {
            k.buffer(&format!("x{i}"), *elem, Access::ReadWrite)
        } else {
            k.buffer(&format!("r{}", i - f.changes()), *elem, Access::Read)
        }
    };
    let places: Vec<Place> = config.operands.iter().enumerate().map(place).collect();
    let c = Compute::from(dtype);
    map::elements(&k, config, &places, |ends, x| {
        let x: Vec<Val> = x.iter().map(|&v| c.enter(v)).collect();
        let new = emit(f, &k, c, &x);
        let new: Vec<Val> = new.into_iter().map(|v| v.splat(config.width)).collect();
        ends.store(&places[..new.len()], &new);
    });
    k.finish()
}

// Several items

/// The layout of the numbers of an item. Items of the same layout can share a launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ItemSignature {
    dtype: DType,
    /// What changes and what is read: what it holds; number by number, or one number for all
    /// elements.
    operands: Vec<(Elem, ReadPattern)>,
    /// Elements that an invocation takes: 1 or 4.
    width: u8,
}

impl Item<'_> {
    /// The layout of this item; `None` if it needs a launch of its own.
    pub fn signature(&self) -> Option<ItemSignature> {
        let len = self.shape.numel();
        let mut aligned = true;
        let mut read = |&(l, d): &(&Layout, DType)| {
            // Strides of axes of one element mean nothing, but where there is one element, they
            // tell a number from a tensor.
            let stays = |(&s, &n): (&isize, &usize)| s == 0 || (n == 1 && len > 1);
            let walk = if l.strides().iter().zip(l.shape().iter()).all(stays) {
                ReadPattern::Broadcast
            } else if l.is_contiguous() {
                aligned &= l.offset().is_multiple_of(4);
                ReadPattern::Dense
            } else {
                return None;
            };
            (!indexing::is_wide(l)).then_some((Elem::from(d), walk))
        };
        let reads = self.reads.iter().map(&mut read).collect::<Option<Vec<_>>>()?;
        let operands = self.changes.iter().map(|&d| (d.into(), ReadPattern::Dense)).chain(reads).collect();
        let width = if aligned { 4 } else { 1 };
        (len > 0 && !indexing::are_many(len)).then_some(ItemSignature { dtype: self.dtype, operands, width })
    }
    fn groups(&self, signature: &ItemSignature) -> i64 {
        self.shape.numel().div_ceil(map::BLOCK_THREADS as usize * usize::from(signature.width)) as i64
    }
}

impl ItemSignature {
    /// Buffers of an item.
    pub fn buffers(&self) -> usize {
        self.operands.len()
    }
}

/// The work of items of the same layout, in one launch: the buffers of each item as in [`update`],
/// item after item.
///
/// # Panics
/// If there are no items.
pub fn batched<'a>(f: &'a dyn UpdateObject, signature: &ItemSignature, items: &[&Item<'_>]) -> Work<'a> {
    let (count, signature) = (items.len(), signature.clone());
    let key = Key::of("update_batched").with(&(&signature, count)).with(&f.key());
    let (mut args, mut groups) = (Vec::new(), 0);
    for item in items {
        args.extend([groups, item.shape.numel() as i64]);
        let offset = |(l, _): &(&Layout, DType)| l.offset() as i64;
        args.extend(item.changes.iter().map(|_| 0).chain(item.reads.iter().map(offset)));
        groups += item.groups(&signature);
    }
    let launch = grid(groups as u64);
    args::work(key, move || build_batched(f, &signature, count), launch, Scalar::I32, &args)
}

/// An item in a kernel.
struct ItemArgs<'k> {
    /// Its first workgroup.
    group: Val<'k>,
    len: Val<'k>,
    operands: Vec<(Place, Val<'k>)>,
}

/// The kernel of so many items.
fn build_batched(f: &dyn UpdateObject, signature: &ItemSignature, count: usize) -> Kernel {
    let words = MapConfig {
        operands: signature.operands.clone(),
        outs: vec![],
        rank: 0,
        width: signature.width,
        wide: false,
    };
    let k = Builder::new(&format!("update{count}_{}{}", f.name(), words.words()), [map::BLOCK_THREADS, 1, 1]);
    let place = |item: usize, i: usize| {
        let access = if i < f.changes() { Access::ReadWrite } else { Access::Read };
        k.buffer(&format!("x{item}_{i}"), signature.operands[i].0, access)
    };
    let places: Vec<Vec<Place>> =
        (0..count).map(|item| (0..signature.buffers()).map(|i| place(item, i)).collect()).collect();
    let args = LaunchArgs::new(&k, Scalar::I32, count * (2 + signature.buffers()));
    let parts: Vec<ItemArgs> = (places.iter().enumerate())
        .map(|(item, places)| ItemArgs {
            group: args.get(&format!("group{item}")),
            len: args.get(&format!("len{item}")),
            operands: (places.iter().enumerate())
                .map(|(i, &p)| (p, args.get(&format!("offset{item}_{i}"))))
                .collect(),
        })
        .collect();
    let group = linear_group_id(&k, Scalar::I32);
    let width = i64::from(signature.width);

    // The item's first element for this invocation, its length, and the numbers at the element.
    let loaded = choose(&k, group, &parts, &|part| {
        let i =
            ((group - part.group) * i64::from(map::BLOCK_THREADS) + k.local_id(0).to(Scalar::I32)) * width;
        let ends = VectorTail::new(&k, i, part.len, signature.width);
        let walks = || part.operands.iter().zip(&signature.operands);
        let load = || {
            let dense: Vec<(Place, Val)> = walks()
                .filter(|(_, (_, walk))| *walk == ReadPattern::Dense)
                .map(|(&(p, offset), _)| (p, offset + i))
                .collect();
            let mut dense = ends.load(&dense).into_iter();
            let each = walks().map(|(&(p, offset), (_, walk))| match walk {
                ReadPattern::Dense => dense.next().expect("each of them was loaded"),
                ReadPattern::Broadcast => k.load(p, offset, 1).splat(signature.width),
                ReadPattern::Strided | ReadPattern::StridedVec4 | ReadPattern::BroadcastVec4 => {
                    unreachable!("items with strides have launches of their own")
                }
            });
            each.collect()
        };
        // Beyond the end there is nothing to load: what stands there is being changed by others.
        let none = || {
            let zero = |(_, (e, _)): (_, &(Elem, ReadPattern))| k.int(e.scalar(), 0).splat(signature.width);
            walks().map(zero).collect()
        };
        [vec![i, part.len], k.if_else(i.lt(part.len), load, none)].concat()
    });
    let (i, len) = (loaded[0], loaded[1]);
    let c = Compute::from(signature.dtype);
    let x: Vec<Val> = loaded[2..].iter().map(|&v| c.enter(v)).collect();
    let new: Vec<Val> = emit(f, &k, c, &x).into_iter().map(|v| v.splat(signature.width)).collect();
    k.if_(i.lt(len), || {
        choose(&k, group, &parts, &|part| {
            let places: Vec<Place> = part.operands[..new.len()].iter().map(|(p, _)| *p).collect();
            VectorTail::new(&k, i, len, signature.width).store(&places, &new);
            Vec::new()
        });
    });
    k.finish()
}

/// What `of` gives for the item that a workgroup belongs to.
fn choose<'k>(
    k: &'k Builder,
    group: Val<'k>,
    parts: &[ItemArgs<'k>],
    of: &dyn Fn(&ItemArgs<'k>) -> Vec<Val<'k>>,
) -> Vec<Val<'k>> {
    if let [part] = parts {
        return of(part);
    }
    let (left, right) = parts.split_at(parts.len() / 2);
    k.if_else(group.lt(right[0].group), || choose(k, group, left, of), || choose(k, group, right, of))
}
