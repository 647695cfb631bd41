//! Elementwise calls, reductions along an axis, and rows of a table: the library's ops on views.

use crate::raw::Raw;
use crate::types::{BackendError, BackendResult, BinaryOp, ReduceOp, UnaryOp};
use elinvar_core::{DType, Layout, Shape};
use elinvar_ops::backend::Scatter;
use elinvar_ops::{Array, Backend, catalogue};

pub(crate) fn unary<B: Backend>(raw: &Raw<B>, op: UnaryOp, x: u64, y: u64, n: usize) -> BackendResult<()> {
    raw.check_ready()?;
    let (d, dtype) = (raw.device(), raw.others);
    let from = raw.row_major("unary", "input_ptr", x, &[n], dtype)?;
    let to = raw.row_major("unary", "output_ptr", y, &[n], dtype)?;
    to.is_apart_from_or_is(&[&from])?;
    if n == 0 {
        return Ok(());
    }
    let x = from.read(d)?;
    let y = match op {
        UnaryOp::Relu => catalogue::relu(&x),
        UnaryOp::Sigmoid => catalogue::sigmoid(&x),
        UnaryOp::Tanh => catalogue::tanh(&x),
        UnaryOp::Exp => catalogue::exp(&x),
        UnaryOp::Log => catalogue::log(&x),
        UnaryOp::Sqrt => catalogue::sqrt(&x),
        UnaryOp::Abs => catalogue::abs(&x),
        UnaryOp::Neg => catalogue::neg(&x),
    }?;
    drop(x);
    to.write(d, y)
}

pub(crate) fn binary<B: Backend>(
    raw: &Raw<B>,
    op: BinaryOp,
    [a, b]: [u64; 2],
    y: u64,
    n: usize,
) -> BackendResult<()> {
    raw.check_ready()?;
    let (d, dtype) = (raw.device(), raw.others);
    let left = raw.row_major("binary", "a_ptr", a, &[n], dtype)?;
    let right = raw.row_major("binary", "b_ptr", b, &[n], dtype)?;
    let to = raw.row_major("binary", "output_ptr", y, &[n], dtype)?;
    to.is_apart_from_or_is(&[&left, &right])?;
    if n == 0 {
        return Ok(());
    }
    let (a, b) = (left.read(d)?, right.read(d)?);
    let y = match op {
        BinaryOp::Add => catalogue::add(&a, &b),
        BinaryOp::Sub => catalogue::sub(&a, &b),
        BinaryOp::Mul => catalogue::mul(&a, &b),
        BinaryOp::Div => catalogue::div(&a, &b),
        BinaryOp::Max => catalogue::maximum(&a, &b),
        BinaryOp::Min => catalogue::minimum(&a, &b),
    }?;
    drop((a, b));
    to.write(d, y)
}

/// A shape as [outer, axis, inner].
fn around(call: &str, shape: &[usize], axis: usize) -> BackendResult<[usize; 3]> {
    let Some(&n) = shape.get(axis) else {
        return Err(BackendError::InvalidArgument(format!(
            "{call}: axis {axis} of shape {shape:?}, which has {} axes",
            shape.len()
        )));
    };
    Shape::new(shape).map_err(|e| BackendError::InvalidArgument(format!("{call}: {e}")))?;
    let area = |axes: &[usize]| axes.iter().product::<usize>();
    Ok([area(&shape[..axis]), n, area(&shape[axis + 1..])])
}

pub(crate) fn reduce<B: Backend>(
    raw: &Raw<B>,
    op: ReduceOp,
    x: u64,
    y: u64,
    shape: &[usize],
    axis: usize,
) -> BackendResult<()> {
    raw.check_ready()?;
    let (d, dtype) = (raw.device(), raw.others);
    let [outer, n, inner] = around("reduce", shape, axis)?;
    let from = raw.row_major("reduce", "input_ptr", x, &[outer, n, inner], dtype)?;
    let to = raw.row_major("reduce", "output_ptr", y, &[outer, 1, inner], dtype)?;
    to.is_apart_from(&[&from])?;
    if n == 0 && matches!(op, ReduceOp::Max | ReduceOp::Min) {
        return Err(BackendError::InvalidArgument(format!(
            "reduce: the {op} of no elements: axis {axis} of shape {shape:?} must not be empty"
        )));
    }
    if outer * inner == 0 {
        return Ok(());
    }
    let x = from.read(d)?;
    let y = match op {
        ReduceOp::Sum => catalogue::sum(&x, Some(&[1]), true),
        ReduceOp::Mean => catalogue::mean(&x, Some(&[1]), true),
        ReduceOp::Max => catalogue::amax(&x, Some(&[1]), true),
        ReduceOp::Min => catalogue::amin(&x, Some(&[1]), true),
    }?;
    drop(x);
    to.write(d, y)
}

/// Row numbers on the device, and as many columns.
fn rows_of<B: Backend>(raw: &Raw<B>, call: &str, indices: &[usize], rows: usize) -> BackendResult<Array<B>> {
    if let Some((place, index)) = indices.iter().enumerate().find(|&(_, &i)| i >= rows) {
        return Err(BackendError::InvalidArgument(format!(
            "{call}: index {index} at position {place} is not in 0..{rows}, the rows of the table"
        )));
    }
    let mut v = elinvar_core::host::with_capacity(indices.len())?;
    v.extend(indices.iter().map(|&i| i as i64));
    Ok(Array::from_vec(raw.device(), v, &[indices.len()])?)
}

impl<B: Backend> Raw<B> {
    /// Softmax along one axis of a row-major input of `shape`; the output may be the input.
    ///
    /// # Errors
    /// Those of every call.
    pub fn softmax(
        &self,
        input_ptr: u64,
        output_ptr: u64,
        shape: &[usize],
        axis: usize,
    ) -> BackendResult<()> {
        self.check_ready()?;
        let (d, dtype) = (self.device(), self.others);
        let sizes = around("softmax", shape, axis)?;
        let from = self.row_major("softmax", "input_ptr", input_ptr, &sizes, dtype)?;
        let to = self.row_major("softmax", "output_ptr", output_ptr, &sizes, dtype)?;
        to.is_apart_from_or_is(&[&from])?;
        if sizes.contains(&0) {
            return Ok(());
        }
        let y = catalogue::softmax(&from.read(d)?, 1)?;
        to.write(d, y)
    }
    /// output[i, c] = input[indices\[i\], c], of a row-major input [rows, cols].
    ///
    /// # Errors
    /// Those of every call; `InvalidArgument` for an index that is not in `0..rows`.
    pub fn gather(
        &self,
        input_ptr: u64,
        indices: &[usize],
        output_ptr: u64,
        rows: usize,
        cols: usize,
    ) -> BackendResult<()> {
        self.check_ready()?;
        let (d, dtype) = (self.device(), self.others);
        let from = self.row_major("gather", "input_ptr", input_ptr, &[rows, cols], dtype)?;
        let to = self.row_major("gather", "output_ptr", output_ptr, &[indices.len(), cols], dtype)?;
        to.is_apart_from(&[&from])?;
        let index = rows_of(self, "gather", indices, rows)?;
        if indices.is_empty() || cols == 0 {
            return Ok(());
        }
        let y = catalogue::index_select(&from.read(d)?, 0, &index)?;
        to.write(d, y)
    }
    /// output[indices\[i\], c] = input[i, c], of a row-major output [rows, cols] whose other rows
    /// stay. Of rows that are named twice the last stays.
    ///
    /// # Errors
    /// Those of every call; `InvalidArgument` for an index that is not in `0..rows`.
    pub fn scatter(
        &self,
        input_ptr: u64,
        indices: &[usize],
        output_ptr: u64,
        rows: usize,
        cols: usize,
    ) -> BackendResult<()> {
        self.check_ready()?;
        let (d, dtype) = (self.device(), self.others);
        let from = self.row_major("scatter", "input_ptr", input_ptr, &[indices.len(), cols], dtype)?;
        let to = self.row_major("scatter", "output_ptr", output_ptr, &[rows, cols], dtype)?;
        to.is_apart_from(&[&from])?;
        let index = rows_of(self, "scatter", indices, rows)?;
        if indices.is_empty() || cols == 0 {
            return Ok(());
        }
        let each = Layout::strided(Shape::new(&[indices.len(), cols])?, &[1, 0], 0, indices.len())?;
        debug_assert_eq!(index.dtype(), DType::I64);
        let (base, x, index) = (to.read(d)?, from.read(d)?, index.with_layout(each));
        let y = B::scatter(d, Scatter::Set, base.view(), 0, index.view(), x.view())?;
        drop((base, x));
        to.write(d, Array::new(d, y, Shape::new(&[rows, cols])?, dtype))
    }
}
