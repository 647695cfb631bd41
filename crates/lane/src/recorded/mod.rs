//! Formulas as data: an expression is a straight-line program in SSA form, recorded once from a
//! formula and replayed on any [`Lane`](crate::lane::Lane) or [`Int`](crate::int::Int).
//!
//! A formula is a generic function, and each reading of it is another monomorphised copy.
//! [`Expression::record`] runs the formula once, on [`Recorded`] numbers, which log each method
//! that is called; [`Expression::replay`] calls the same methods, in the same order, of another
//! reading. So a reading that is not a hot loop (kernel code, tensor operations, observers in
//! tests) is compiled once and not once per formula.
//!
//! Every method of a reading is one node, provided methods too (`exp`, `at_least`, `is_nan`): a
//! reading that overrides one receives the call as from the formula itself, and results are the
//! same to the last bit. Nothing is folded, shared or removed.
//!
//! How it can be wrong: a formula that depends on more than its width ([`Lane::bits`]) and its own
//! attributes. [`Lane::SCALES`], [`Lane::scaled`] and [`Lane::are_moderate`] are hints to the
//! elementary functions, whose calls are nodes; a recording answers them as the defaults do. And a
//! provided method that is added to a trait but not to the recording is replayed as its parts.
//!
//! [`Lane::bits`]: crate::lane::Lane::bits
//! [`Lane::SCALES`]: crate::lane::Lane::SCALES
//! [`Lane::scaled`]: crate::lane::Lane::scaled
//! [`Lane::are_moderate`]: crate::lane::Lane::are_moderate

use crate::lane::Mask;
use std::cell::RefCell;
use std::thread::LocalKey;

/// Declares an enum of methods with the same operands, `call`, which calls the one it names, and a
/// macro with a method of each name, which records it. Operators are called like methods, and
/// recorded by impls of their own.
macro_rules! methods {
    (
        $(#[$doc:meta])*
        $name:ident
        call [$($generics:tt)*] $signature:tt -> $result:ty { $this:tt => $x:ident $operands:tt }
        record $recording:ident $recorded_signature:tt -> $recorded:ty { $recorded_operands:tt }
        operators { $($operator:ident $symbol:ident;)* }
        methods { $($variant:ident $method:ident;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        enum $name {
            $($operator,)*
            $($variant,)*
        }
        impl $name {
            fn call<$($generics)*> $signature -> $result {
                match $this {
                    $($name::$operator => $x.$symbol $operands,)*
                    $($name::$variant => $x.$method $operands,)*
                }
            }
        }
        macro_rules! $recording {
            () => {
                $(fn $method $recorded_signature -> $recorded {
                    $name::$variant.record $recorded_operands
                })*
            };
        }
    };
}

/// Declares the mask of a recorded reading; its nodes are pushed by `$push`.
macro_rules! recorded_mask {
    ($(#[$doc:meta])* $name:ident $push:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(MaskId);

        impl Mask for $name {
            fn all_lanes(v: bool) -> Self {
                $name($push(MaskNode::AllLanes(v)))
            }
        }
        impl std::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, o: Self) -> Self {
                $name($push(MaskNode::And(self.0, o.0)))
            }
        }
        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, o: Self) -> Self {
                $name($push(MaskNode::Or(self.0, o.0)))
            }
        }
        impl std::ops::BitXor for $name {
            type Output = Self;
            fn bitxor(self, o: Self) -> Self {
                $name($push(MaskNode::Xor(self.0, o.0)))
            }
        }
        impl std::ops::Not for $name {
            type Output = Self;
            fn not(self) -> Self {
                $name($push(MaskNode::Not(self.0)))
            }
        }
    };
}

mod float;
mod int;

pub use float::{Expression, Recorded, RecordedBits, RecordedMask};
pub use int::{IntExpression, RecordedInt, RecordedIntMask};

/// The index of a float among the floats of an expression; the operands come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FloatId(u32);
/// The index of an integer among the integers of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct IntId(u32);
/// The index of a mask among the masks of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MaskId(u32);

/// A node that gives a mask from masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum MaskNode {
    AllLanes(bool),
    And(MaskId, MaskId),
    Or(MaskId, MaskId),
    Xor(MaskId, MaskId),
    Not(MaskId),
}

impl MaskNode {
    fn call<M: Mask>(self, masks: &[M]) -> M {
        let mask = |id: MaskId| masks[id.0 as usize];
        match self {
            MaskNode::AllLanes(v) => M::all_lanes(v),
            MaskNode::And(a, b) => mask(a) & mask(b),
            MaskNode::Or(a, b) => mask(a) | mask(b),
            MaskNode::Xor(a, b) => mask(a) ^ mask(b),
            MaskNode::Not(a) => !mask(a),
        }
    }
}

/// The nodes so far, and how many of them give a float, an integer, a mask.
#[derive(Debug)]
struct Recorder<N> {
    nodes: Vec<N>,
    /// Width of the floats.
    bits: u32,
    floats: u32,
    ints: u32,
    masks: u32,
}

impl<N> Recorder<N> {
    fn with_floats(bits: u32, floats: u32) -> Self {
        Recorder { nodes: Vec::new(), bits, floats, ints: 0, masks: 0 }
    }
    fn with_ints(ints: u32) -> Self {
        Recorder { nodes: Vec::new(), bits: 0, floats: 0, ints, masks: 0 }
    }
    fn float(&mut self, node: N) -> FloatId {
        self.nodes.push(node);
        self.floats += 1;
        FloatId(self.floats - 1)
    }
    fn int(&mut self, node: N) -> IntId {
        self.nodes.push(node);
        self.ints += 1;
        IntId(self.ints - 1)
    }
    fn mask(&mut self, node: N) -> MaskId {
        self.nodes.push(node);
        self.masks += 1;
        MaskId(self.masks - 1)
    }
}

/// The recorder of a thread while a formula runs. A literal is not derived from another value, so
/// the recorder cannot be carried in the values.
type Slot<N> = LocalKey<RefCell<Option<Recorder<N>>>>;

/// Restores the outer recorder, also when the formula panics.
struct Restore<N: 'static> {
    slot: &'static Slot<N>,
    outer: Option<Recorder<N>>,
}

impl<N> Restore<N> {
    fn start(slot: &'static Slot<N>, recorder: Recorder<N>) -> Self {
        Restore { slot, outer: slot.replace(Some(recorder)) }
    }
    fn finish(self) -> Recorder<N> {
        self.slot.take().expect("a formula takes no recorder")
    }
}

impl<N> Drop for Restore<N> {
    fn drop(&mut self) {
        self.slot.replace(self.outer.take());
    }
}

/// Runs `f` on the recorder of this thread.
fn with_recorder<N, T>(slot: &'static Slot<N>, f: impl FnOnce(&mut Recorder<N>) -> T) -> T {
    slot.with_borrow_mut(|r| f(r.as_mut().expect("recorded numbers are used only while recording")))
}

#[cfg(test)]
mod tests;
