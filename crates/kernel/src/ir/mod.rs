//! The IR: the instructions of a kernel and what they mean.
//!
//! A [`Kernel`] is plain data: a table of value types, and a body that is a tree of [`Region`]s,
//! each of which owns its instructions in order. A [`Value`] is an index into the table. A region
//! owns its instructions instead of pointing into a shared arena, so that an instruction cannot be
//! listed twice or be forgotten, and moving one is moving it. Values are numbered in the order in
//! which they are defined, without gaps ([`crate::pass::renumber`] sees to it), so that equal
//! kernels are equal data.

mod constant;
mod kernel;
mod op;
mod tensor_view;
mod types;
mod walk;

pub use constant::Constant;
pub use kernel::{Access, Buffer, Features, Inst, Kernel, Param, Region, Shared, SharedLayout, Value};
pub use op::{Atomic, Binary, Builtin, Compare, FragmentLayout, Op, Place, Reduce, Unary};
pub use tensor_view::{
    MAX_TILE_ROWS, TILE_ROW_ALIGN, TILE_ROW_BYTES, TensorView, TmaTile, WARPGROUP, WGMMA_BLOCK,
    WGMMA_BLOCK_BYTES, tensor_map_error, tile_row_elements,
};
pub use types::{Elem, Fragment, MmaShape, Role, Scalar, Type};
pub use walk::Effect;
