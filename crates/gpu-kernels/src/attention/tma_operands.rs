//! TMA operands of attention: the tensor maps of q, k, v and g, and which workgroup takes which
//! tile.

use crate::launch::args::LaunchArgs;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Elem, Fragment, MmaShape, Place, Role, TmaTile, WGMMA_BLOCK, tensor_map_error};
use elinvar_ops::backend::Attention;

/// Rows or columns of a block.
pub(super) const TILE_SIDE: u32 = WGMMA_BLOCK;
/// Elements of a block.
pub(super) const TILE_ELEMENTS: u32 = TILE_SIDE * TILE_SIDE;
/// Rows, or columns, of a fragment.
pub(super) const FRAGMENT_ROWS: u32 = 16;
/// Invocations of a subgroup.
pub(super) const WARP_LANES: u32 = 32;
/// Bytes of keys and values that a cache holds beside others: heads of so many are gone through
/// together.
const L2_SHARE_BYTES: usize = 16 << 20;

/// The layout of an operand: heads are planes, or stand in lines, side by side; and its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TmaLayout {
    pub interleaved_heads: bool,
    /// The offset, elements of a line, elements from line to line and from plane to plane, planes,
    /// elements from head to head in a line.
    pub args: [i64; ARGS_PER_OPERAND],
}

/// Numbers of an operand.
pub(super) const ARGS_PER_OPERAND: usize = 6;

impl TmaLayout {
    /// Of values [b, h, n, width]; `None` if TMA tiles of it cannot be fetched.
    pub fn of(elem: Elem, l: &Layout) -> Option<TmaLayout> {
        let ([b, h, n, d], strides) = (l.shape().dims().try_into().ok()?, l.strides());
        let [sb, sh, sn, sd]: [i64; 4] = std::array::from_fn(|a| strides[a] as i64);
        let [b, h, n, d] = [b, h, n, d].map(|v: usize| v as i64);
        let offset = l.offset() as i64;
        // Of a single line, plane or head the distance may be any.
        let piece = i64::from(16 / elem.size());
        let sn = if n == 1 { piece } else { sn };
        let planes = (b == 1 || h == 1 || sb == h * sh).then(|| {
            let step = if h == 1 { sb } else { sh };
            let step = if b * h == 1 { piece } else { step };
            (false, [offset, d, sn, step, b * h, 0])
        });
        let sb = if b == 1 { piece } else { sb };
        let interleaved_heads = (sh > 0).then_some((true, [offset, (h - 1) * sh + d, sn, sb, b, sh]));
        let loadable =
            |&(_, [offset, inner, line, plane, planes, step]): &(bool, [i64; ARGS_PER_OPERAND])| {
                let apart = step % piece == 0 && (n == 1 || line >= inner);
                let small = [offset, inner, line, plane, planes].iter().all(|v| i32::try_from(*v).is_ok());
                sd == 1
                    && apart
                    && small
                    && tensor_map_error(elem, [offset, inner, n, planes, line, plane]).is_none()
            };
        let found = planes.into_iter().chain(interleaved_heads).find(loadable);
        found.map(|(interleaved_heads, args)| TmaLayout { interleaved_heads, args })
    }
}

/// From products to exponents of 2.
pub(super) fn exponents(a: &Attention) -> f32 {
    (a.scale * std::f64::consts::LOG2_E) as f32
}

/// How many heads are gone through together: of causal ones, some whose keys and values are in the
/// cache together, so that tiles that have the most to do come before all others of these heads;
/// else one after the other.
pub(super) fn heads_together(causal: bool, heads: usize, bytes: usize) -> usize {
    if causal { (L2_SHARE_BYTES / bytes.max(1)).clamp(1, heads) } else { 1 }
}

/// Fragments of values.
pub(super) fn fragment(dtype: DType, role: Role) -> Fragment {
    MmaShape { elem: dtype.into(), shape: [16; 3] }.fragment(role)
}

/// An operand in a kernel, and the plane and the first number of a head's lines.
#[derive(Clone, Copy)]
pub(super) struct TmaOperand<'k> {
    view: u32,
    interleaved_heads: bool,
    step: Val<'k>,
    pub plane: Val<'k>,
    pub first: Val<'k>,
}

impl<'k> TmaOperand<'k> {
    /// Reads the numbers; TMA tiles are of so many lines, of which a plane has `count`.
    pub fn read(
        (k, args): (&'k Builder, &LaunchArgs<'k>),
        (name, place): (&str, Place),
        interleaved_heads: bool,
        (lines, count): (u32, Val<'k>),
    ) -> Self {
        let words = ["offset", "inner", "line", "plane", "planes", "head"];
        let [offset, inner, line, plane, planes, step] = words.map(|w| args.get(&format!("{name}_{w}")));
        let view =
            k.view(&format!("{name}_view"), place, lines, offset, [inner, count, planes], [line, plane]);
        let zero = step.like(0);
        TmaOperand { view, interleaved_heads, step, plane: zero, first: zero }
    }
    /// A head of a batch that has so many.
    pub fn head(self, batch: Val<'k>, heads: Val<'k>, head: Val<'k>) -> Self {
        if self.interleaved_heads {
            TmaOperand { plane: batch, first: head * self.step, ..self }
        } else {
            TmaOperand { plane: batch * heads + head, ..self }
        }
    }
    /// A TMA tile from a line on, of the `part`-th 64 numbers.
    pub fn tma_tile(&self, k: &Builder, to: (Place, Val<'k>), line: Val<'k>, part: u32) -> TmaTile {
        let first = self.first + i64::from(part * TILE_SIDE);
        k.tma_tile(to.0, to.1, self.view, [first, line, self.plane])
    }
}

/// Which head and tile a workgroup takes, and whether there is one for it.
pub(super) fn assign_tile<'k>(
    unit: Val<'k>,
    [heads, tiles, heads_together]: [Val<'k>; 3],
    last_first: bool,
) -> (Val<'k>, Val<'k>, Val<'k>) {
    let exists = unit.lt(heads * tiles);
    let unit = unit.min(heads * tiles - 1);
    let section = unit / (heads_together * tiles);
    let within = unit % (heads_together * tiles);
    let first = section * heads_together;
    let count = heads_together.min(heads - first);
    let (tile, head) = (within / count, first + within % count);
    (exists, head, if last_first { tiles - 1 - tile } else { tile })
}
