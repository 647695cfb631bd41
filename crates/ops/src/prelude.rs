//! The imports of an op's file: `use crate::prelude::*;`.

pub use crate::args::{Args, Attr};
pub use crate::array::Array;
pub(crate) use crate::autocast::autocast;
pub use crate::backend::*;
pub use crate::int::Int;
pub use crate::lane::{Lane, LaneInt, Mask};
pub use crate::map::{Compiled, CompiledIntMap, CompiledMap, Hints, IntMap, Map, Out, map, map_any, map_int};
pub use crate::op::{Context, Op, Outputs, Saves};
pub use crate::rows::{CompiledRows, RowFormula, RowOut, Rows, rows};
pub use crate::value::{Value, widen};
pub use crate::{compile_columns, compile_epilogue, compile_int_map, compile_map, compile_rows};
pub use elinvar_core::{
    DType, Dims, Error, ErrorKind, HostData, HostTensor, Layout, Precision, Result, Scalar, Shape,
};
