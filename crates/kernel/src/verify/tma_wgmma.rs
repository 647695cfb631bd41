//! Verifier: tensor views, the shared memory that holds TMA tiles, accumulators that wgmma changes
//! in place.

use super::{Check, whole};
use crate::ir::{
    Elem, Fragment, FragmentLayout, Kernel, MAX_TILE_ROWS, Op, Place, Role, Scalar, TILE_ROW_ALIGN,
    TensorView, TmaTile, Type, Value, WARPGROUP,
};

/// Mbarriers, at most.
const MAX_MBARRIERS: u32 = 64;
/// The sums of a product of TMA tiles.
const ACCUMULATOR: Type = Type::Fragment(Fragment { role: Role::C, elem: Elem::F32, m: 16, n: 16, k: 16 });
/// Fragments beside each other, at most: 256 columns. They are a multiple of a block's.
const MAX_ACCUMULATORS: usize = 16;
const BLOCK_ACCUMULATORS: usize = 4;

pub(super) fn check(k: &Kernel) -> Check {
    if k.mbarriers > MAX_MBARRIERS {
        return whole(k, format_args!("{} mbarriers; at most {MAX_MBARRIERS}", k.mbarriers));
    }
    for v in &k.views {
        if let Err(what) = view(k, v) {
            return whole(k, format_args!("view {}: {what}", v.name));
        }
    }
    own_memory(k)?;
    read_by_one(k)
}

fn view(k: &Kernel, v: &TensorView) -> Result<(), String> {
    let buffer =
        k.buffers.get(v.buffer as usize).ok_or_else(|| format!("there is no buffer {}", v.buffer))?;
    if buffer.access.writes() || !TensorView::is_loadable(buffer.elem) {
        return Err(format!(
            "of {} that are {}; f16, bf16 or f32 that are only read",
            buffer.elem,
            buffer.access.name()
        ));
    }
    if v.lines == 0 || v.lines > MAX_TILE_ROWS || !v.lines.is_multiple_of(TILE_ROW_ALIGN) {
        return Err(format!("{} lines; a multiple of {TILE_ROW_ALIGN} up to {MAX_TILE_ROWS}", v.lines));
    }
    for i in v.param_ids() {
        match k.params.get(i as usize) {
            None => return Err(format!("there is no parameter {i}")),
            Some(p) if !p.scalar.is_int() => return Err(format!("{} is no integer", p.name)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// How TMA tiles are only the device knows: nothing else touches the memory that holds them.
fn own_memory(k: &Kernel) -> Check {
    let tma_memory = k.holds_tiles();
    let holds = |p: &Place| match p {
        Place::Shared(i) => tma_memory.get(*i as usize).copied().unwrap_or(false),
        Place::Buffer(_) => false,
    };
    let mut wrong = None;
    k.body.each_inst(&mut |inst| {
        let (own, place) = match &inst.op {
            Op::Load(p, ..) | Op::Store(p, ..) | Op::Atomic(_, p, ..) | Op::CpAsync { to: p, .. } => {
                (false, p)
            }
            Op::FragmentLoad(_, _, p, ..) | Op::FragmentStore(_, p, ..) => (false, p),
            Op::WgmmaSs { a: (_, a, _), b: (_, b, _), .. } => (true, if holds(a) { b } else { a }),
            Op::WgmmaRs { b: (_, b, _), .. } => (true, b),
            _ => return,
        };
        if holds(place) != own {
            wrong = wrong.or(Some((inst, own)));
        }
    });
    match wrong {
        None => Ok(()),
        Some((inst, true)) => super::at(k, inst, "no TMA tiles are fetched to where they are multiplied"),
        Some((inst, false)) => super::at(k, inst, "this shared memory is for TMA tiles alone"),
    }
}

/// Accumulators are changed in place, so nothing else may read the old ones.
fn read_by_one(k: &Kernel) -> Check {
    let mut readers = vec![0u32; k.values.len()];
    let mut count = |v: Value| readers[v.0 as usize] += 1;
    k.body.each_inst(&mut |inst| {
        inst.op.each_operand(&mut count);
        inst.op.regions().iter().flat_map(|r| &r.yields).for_each(|&v| count(v));
    });
    let mut wrong = None;
    k.body.each_inst(&mut |inst| {
        if let Op::WgmmaSs { sums, .. } | Op::WgmmaRs { sums, .. } = &inst.op
            && let Some(v) = sums.iter().find(|v| readers[v.0 as usize] > 1)
        {
            wrong = wrong.or(Some((inst, *v)));
        }
    });
    match wrong {
        None => Ok(()),
        Some((inst, v)) => {
            super::at(k, inst, format_args!("%{} is changed here, and read elsewhere, too", v.0))
        }
    }
}

/// That TMA tiles of a view fit where they are fetched to.
pub(super) fn tma_tile(k: &Kernel, f: &TmaTile) -> Result<(), String> {
    let view = k.views.get(f.view as usize).ok_or_else(|| format!("there is no view {}", f.view))?;
    let from = k.buffers.get(view.buffer as usize).map(|b| b.elem);
    let Place::Shared(to) = f.to else { return Err("TMA tiles are fetched to shared memory".to_string()) };
    let to = k.shared.get(to as usize).ok_or_else(|| format!("there is no shared memory {to}"))?;
    match from {
        Some(from) if from == to.elem => {}
        Some(from) => return Err(format!("{from} are fetched to where {} lie", to.elem)),
        None => return Err(format!("there is no buffer {}", view.buffer)),
    }
    super::types::index(k, &f.at)?;
    f.from.iter().try_for_each(|v| word(k, v))
}

/// An integer of 32 bits.
pub(super) fn word(k: &Kernel, v: &Value) -> Result<(), String> {
    match k.ty(*v) {
        Type::Vector(Scalar::I32 | Scalar::U32, 1) => Ok(()),
        t => Err(format!("%{} is {t}, and should be i32 or u32", v.0)),
    }
}

/// That blocks are multiplied by those who can, and their sums are what they should be.
pub(super) fn product(
    k: &Kernel,
    blocks: [&(FragmentLayout, Place, Value); 2],
    sums: &[Value],
) -> Result<(), String> {
    workers(k)?;
    let elems = [block(k, blocks[0])?, block(k, blocks[1])?];
    if elems[0] != elems[1] || !TensorView::is_loadable(elems[0]) {
        return Err(format!("blocks of {} and of {}; both are f16, bf16 or f32", elems[0], elems[1]));
    }
    let [a, b] = blocks.map(|(layout, ..)| *layout);
    if !TensorView::is_transposable(elems[0])
        && (a, b) != (FragmentLayout::RowMajor, FragmentLayout::ColumnMajor)
    {
        return Err(format!("blocks of {}, whose lines are not of terms", elems[0]));
    }
    are_sums(k, sums)
}

/// The same of rows in fragments.
pub(super) fn product_of_rows(
    k: &Kernel,
    a: &[Value; 4],
    b: &(FragmentLayout, Place, Value),
    sums: &[Value],
) -> Result<(), String> {
    workers(k)?;
    let elem = block(k, b)?;
    if !TensorView::is_transposable(elem) {
        return Err(format!("rows by blocks of {elem}; f16 or bf16"));
    }
    let rows = Type::Fragment(Fragment { role: Role::A, elem, m: 16, n: 16, k: 16 });
    if let Some(v) = a.iter().find(|v| k.ty(**v) != rows) {
        return Err(format!("%{} is {}, and should be {rows}", v.0, k.ty(*v)));
    }
    are_sums(k, sums)
}

fn workers(k: &Kernel) -> Result<(), String> {
    if k.subgroup == Some(32) && k.invocations().is_multiple_of(WARPGROUP) {
        return Ok(());
    }
    Err(format!("blocks are multiplied by {WARPGROUP} invocations, in subgroups of 32"))
}

/// What a block is of.
fn block(k: &Kernel, (_, place, at): &(FragmentLayout, Place, Value)) -> Result<Elem, String> {
    super::types::index(k, at)?;
    let Place::Shared(i) = place else { return Err("blocks lie in shared memory".to_string()) };
    let shared = k.shared.get(*i as usize).ok_or_else(|| format!("there is no shared memory {i}"))?;
    Ok(shared.elem)
}

fn are_sums(k: &Kernel, sums: &[Value]) -> Result<(), String> {
    if sums.is_empty() || sums.len() > MAX_ACCUMULATORS || !sums.len().is_multiple_of(BLOCK_ACCUMULATORS) {
        return Err(format!(
            "{} sums; a multiple of {BLOCK_ACCUMULATORS} up to {MAX_ACCUMULATORS}",
            sums.len()
        ));
    }
    match sums.iter().find(|v| k.ty(**v) != ACCUMULATOR) {
        None => Ok(()),
        Some(v) => Err(format!("%{} is {}, and should be {ACCUMULATOR}", v.0, k.ty(*v))),
    }
}
