//! Sequences of launches: work of several kernels, and the scratch memory between them.
//!
//! The caller allocates the results and the scratch memory, starts the steps in order, each after
//! the stores of the one before are visible, and binds the buffers that a step names (behind them
//! its arguments, if it has some).

use super::Work;
use elinvar_kernel::ir::Elem;

/// Memory that a work needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// What it holds.
    pub elem: Elem,
    /// How many.
    pub len: usize,
    /// Must it be all zeros in the beginning?
    pub zero: bool,
}

impl BufferSpec {
    /// Memory that holds anything in the beginning.
    pub fn of(elem: Elem, len: usize) -> BufferSpec {
        BufferSpec { elem, len, zero: false }
    }
    /// Zeros.
    pub fn zeros(elem: Elem, len: usize) -> BufferSpec {
        BufferSpec { elem, len, zero: true }
    }
}

/// A buffer of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSlot {
    /// Operand of the whole work, in the order of its function.
    Operand(usize),
    /// Result of the whole work.
    Result(usize),
    /// Memory between the steps.
    Scratch(usize),
}

/// One launch.
#[derive(Debug)]
pub struct SequenceStep<'a> {
    /// What is started.
    pub work: Work<'a>,
    /// Its buffers, in order.
    pub buffers: Vec<BufferSlot>,
}

/// Launches that follow one another.
#[derive(Debug, Default)]
pub struct LaunchSequence<'a> {
    /// What comes out.
    pub results: Vec<BufferSpec>,
    /// Memory between the steps.
    pub scratch: Vec<BufferSpec>,
    /// The launches; none if there is nothing to do.
    pub steps: Vec<SequenceStep<'a>>,
}

impl<'a> LaunchSequence<'a> {
    /// One more launch.
    pub(crate) fn push(&mut self, work: Work<'a>, buffers: &[BufferSlot]) {
        self.steps.push(SequenceStep { work, buffers: buffers.to_vec() });
    }
}
