//! Plans of attention and its gradient: which kernels a problem takes. The one home of thresholds.
//!
//! No bit of exact attention depends on a plan. Bits of fast attention (`Precision::Fast`) do: the
//! path follows the device, widths, layouts, and whether queries are few ([`is_few_queries`]).

use super::{AttentionPath, BackwardInputs, backward, forward};
use super::{mma_backward, mma_forward, wgmma_backward, wgmma_forward};
use crate::launch::{Machine, Plan};
use elinvar_core::{DType, Layout, Precision};
use elinvar_kernel::ir::{Elem, MmaShape};
use elinvar_ops::backend::Attention;
use std::fmt;
use thresholds::{KEYS_PER_SPLIT, MAX_SPLIT_QUERIES};

pub(super) mod thresholds;

/// The subgroups that the kernels of mma.sync take numbers out of fragments of.
const MMA_LANES: u32 = 32;

/// Which kernel does attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardPath {
    /// TMA and wgmma.
    Wgmma,
    /// mma.sync, a workgroup for each tile of queries.
    Mma,
    /// mma.sync, workgroups for splits of the keys.
    SplitKv,
    /// In the order of the definition.
    Exact(AttentionPath),
}

/// Which kernels do the gradient of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardPath {
    /// TMA and wgmma; with a copy of g before, if it cannot be loaded as it is.
    Wgmma {
        /// Is g copied?
        copies_g: bool,
    },
    /// mma.sync; with a copy of g before, if it cannot be loaded as it is.
    Mma {
        /// Is g copied?
        copies_g: bool,
    },
    /// In the order of the definition.
    Exact(AttentionPath),
}

const NO_TENSOR_CORES: &str = "no tensor cores for these numbers";
const DOES_NOT_FIT: &str = "tensor cores take no such width, layout or mask";

/// The tensor cores for attention of a type, if it may be fast. The kernels take numbers out of
/// fragments of subgroups of 32, which is known of those devices that have asynchronous copies.
fn mma_shape(a: &Attention, dtype: DType, machine: &Machine<'_>) -> Option<MmaShape> {
    let lanes = machine.subgroup[0]..=machine.subgroup[1];
    let fits = a.precision == Precision::Fast && machine.limits.cp_async && lanes.contains(&MMA_LANES);
    let is = |u: &&MmaShape| u.elem == Elem::from(dtype) && u.shape == [16; 3];
    if fits { machine.mma_shapes.iter().find(is).copied() } else { None }
}

/// Is it attention of few queries to many keys? Causal queries see few keys if they are few.
pub fn is_few_queries(a: &Attention, [q, k, _]: [&Layout; 3]) -> bool {
    !a.causal && q.shape()[2] <= MAX_SPLIT_QUERIES && k.shape()[2] > KEYS_PER_SPLIT
}

/// How exact attention reads rows; `fits`: those that go through so many bytes of shared memory
/// find room there.
fn exact(machine: &Machine<'_>, fits: impl Fn(u32) -> bool) -> (AttentionPath, &'static str) {
    if machine.is_software {
        (AttentionPath::Direct, "barriers are expensive")
    } else if fits(machine.limits.shared) {
        (AttentionPath::Smem(machine.limits.shared), "rows find room in shared memory")
    } else {
        (AttentionPath::Direct, "rows are too long for shared memory")
    }
}

/// Why a path in the order of the definition is taken: exactness was asked for, or nothing else can
/// be done.
fn why_exact(a: &Attention, has_unit: bool, why: &'static str) -> &'static str {
    match a.precision {
        Precision::Exact => why,
        Precision::Fast => {
            if has_unit {
                DOES_NOT_FIT
            } else {
                NO_TENSOR_CORES
            }
        }
    }
}

/// The plan of attention: q, k, v.
pub fn forward(
    a: &Attention,
    dtype: DType,
    operands: [&Layout; 3],
    masked: bool,
    machine: &Machine<'_>,
) -> Plan<ForwardPath> {
    let unit = mma_shape(a, dtype, machine);
    if let Some(unit) = unit {
        let few = is_few_queries(a, operands);
        let shared = machine.limits.shared;
        if machine.has_tma && !few && wgmma_forward::fits(a, dtype, operands, masked, shared) {
            return Plan::new(ForwardPath::Wgmma, "TMA can load the operands");
        }
        if mma_forward::fits(unit, dtype, operands, masked) {
            return match few {
                true => Plan::new(ForwardPath::SplitKv, "few queries, many keys"),
                false => Plan::new(ForwardPath::Mma, "operands in pieces of 16 bytes"),
            };
        }
    }
    let (path, why) = exact(machine, |bytes| forward::fits_smem(dtype, operands, bytes));
    Plan::new(ForwardPath::Exact(path), why_exact(a, unit.is_some(), why))
}

/// The plan of the gradient of attention.
pub fn backward(
    a: &Attention,
    dtype: DType,
    x: &BackwardInputs<'_>,
    machine: &Machine<'_>,
) -> Plan<BackwardPath> {
    let unit = mma_shape(a, dtype, machine);
    if let Some(unit) = unit {
        // A gradient that is one number for all of a result, say, is written out: with it as it is,
        // tensor cores could not be used.
        let whole = Layout::contiguous(x.g.shape().clone());
        for (g, copies_g) in [(x.g, false), (&whole, true)] {
            let x = BackwardInputs { g, ..*x };
            let why = if copies_g { "a copy of g can be loaded" } else { "operands can be loaded" };
            if machine.has_tma && wgmma_backward::grad_fits(a, dtype, &x, machine.limits.shared) {
                return Plan::new(BackwardPath::Wgmma { copies_g }, why);
            }
            if mma_backward::grad_fits(unit, dtype, &x) {
                return Plan::new(BackwardPath::Mma { copies_g }, why);
            }
        }
    }
    let (path, why) = exact(machine, |bytes| backward::fits_smem(dtype, x, bytes));
    Plan::new(BackwardPath::Exact(path), why_exact(a, unit.is_some(), why))
}

impl fmt::Display for AttentionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttentionPath::Direct => "direct",
            AttentionPath::Smem(_) => "rows in shared memory",
        })
    }
}

impl fmt::Display for ForwardPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForwardPath::Wgmma => f.write_str("wgmma"),
            ForwardPath::Mma => f.write_str("mma"),
            ForwardPath::SplitKv => f.write_str("mma, split-kv"),
            ForwardPath::Exact(path) => path.fmt(f),
        }
    }
}

impl fmt::Display for BackwardPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copied = |copies_g: &bool| if *copies_g { " of a copy of g" } else { "" };
        match self {
            BackwardPath::Wgmma { copies_g } => write!(f, "wgmma{}", copied(copies_g)),
            BackwardPath::Mma { copies_g } => write!(f, "mma{}", copied(copies_g)),
            BackwardPath::Exact(path) => path.fmt(f),
        }
    }
}
