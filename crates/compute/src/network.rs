//! Convolutions with their gradients, and attention.

use crate::raw::Raw;
use crate::types::{BackendError, BackendResult};
use elinvar_core::{Layout, Shape};
use elinvar_ops::backend::{Attention, Conv};
use elinvar_ops::{Array, Backend};

/// Which of input, filter and output is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The output.
    Forward,
    /// The gradient by the input, of filter and output's gradient.
    Input,
    /// The gradient by the filter, of input and output's gradient.
    Filter,
}

impl Pass {
    const fn call(self) -> &'static str {
        match self {
            Pass::Forward => "conv2d_forward",
            Pass::Input => "conv2d_backward_data",
            Pass::Filter => "conv2d_backward_filter",
        }
    }
}

/// Strides and paddings above this would overflow the arithmetic of a device.
const LARGEST: usize = i32::MAX as usize;

/// Name, pointer and shape of an argument.
type Argument<'a> = (&'static str, u64, &'a [usize]);

/// Four or two numbers.
fn exactly<const N: usize>(call: &str, what: &str, given: &[usize]) -> BackendResult<[usize; N]> {
    given.try_into().map_err(|_| {
        BackendError::InvalidArgument(format!(
            "{call}: {what} {given:?} has {} numbers; it must have {N}",
            given.len()
        ))
    })
}

/// The spatial sizes of the output.
fn sizes(call: &str, input: [usize; 4], filter: [usize; 4], conv: &Conv) -> BackendResult<[usize; 2]> {
    let mut out = [0; 2];
    for (axis, out) in out.iter_mut().enumerate() {
        let (n, taps) = (input[2 + axis], filter[2 + axis]);
        let (stride, padding) = (conv.stride[axis], conv.padding[axis]);
        if stride == 0 || stride > LARGEST || padding > LARGEST {
            return Err(BackendError::InvalidArgument(format!(
                "{call}: stride {stride} and padding {padding} of spatial axis {axis}; the stride must be in \
                 1..={LARGEST}, the padding in 0..={LARGEST}"
            )));
        }
        let padded = n.saturating_add(2 * padding);
        if taps == 0 || taps > padded {
            return Err(BackendError::InvalidArgument(format!(
                "{call}: a filter of {taps} taps for spatial axis {axis} of {n} elements, with padding {padded}; it \
                 must have 1 at least and fit"
            )));
        }
        *out = (padded - taps) / stride + 1;
    }
    Ok(out)
}

/// A convolution or a gradient of one. `all`: input, filter and output, or their gradients.
pub(crate) fn conv<B: Backend>(
    raw: &Raw<B>,
    pass: Pass,
    all: [Argument<'_>; 3],
    stride: &[usize],
    padding: &[usize],
) -> BackendResult<()> {
    raw.check_ready()?;
    let (d, dtype, call) = (raw.device(), raw.others, pass.call());
    let [x, w, y] = all;
    let (x_shape, w_shape, y_shape) =
        (exactly::<4>(call, x.0, x.2)?, exactly::<4>(call, w.0, w.2)?, exactly::<4>(call, y.0, y.2)?);
    let conv = Conv {
        stride: exactly::<2>(call, "stride", stride)?.into(),
        padding: exactly::<2>(call, "padding", padding)?.into(),
        dilation: vec![1, 1],
        groups: 1,
        precision: raw.precision(),
    };
    let [oh, ow] = sizes(call, x_shape, w_shape, &conv)?;
    let want = [x_shape[0], w_shape[0], oh, ow];
    if x_shape[1] != w_shape[1] || y_shape != want {
        return Err(BackendError::InvalidArgument(format!(
            "{call}: input {x_shape:?}, filter {w_shape:?}, output {y_shape:?}; the second sizes of input and filter \
             must be equal, and the output {want:?}"
        )));
    }
    let place =
        |(what, ptr, _): Argument<'_>, shape: &[usize; 4]| raw.row_major(call, what, ptr, shape, dtype);
    let (x, w, y) = (place(x, &x_shape)?, place(w, &w_shape)?, place(y, &y_shape)?);
    let [first, second, to] = match pass {
        Pass::Forward => [x, w, y],
        Pass::Input => [y, w, x],
        Pass::Filter => [x, y, w],
    };
    to.is_apart_from(&[&first, &second])?;
    let shape = to.layout.shape().clone();
    if shape.numel() == 0 {
        return Ok(());
    }
    let (a, b) = (first.read(d)?, second.read(d)?);
    let result = match pass {
        Pass::Forward => B::conv(d, &conv, a.view(), b.view(), &shape[2..], None, &[])?,
        Pass::Input => B::conv_input_grad(d, &conv, a.view(), b.view(), &shape[2..])?,
        Pass::Filter => B::conv_weight_grad(d, &conv, a.view(), b.view(), &shape[2..])?,
    };
    drop((a, b));
    to.write(d, Array::new(d, result, shape, dtype))
}

/// Attention of q, k, v, o; sizes: batch, heads, queries, keys, elements of a head.
pub(crate) fn attention<B: Backend>(
    raw: &Raw<B>,
    [q, k, v, o]: [u64; 4],
    [b, h, l, s, width]: [usize; 5],
    scale: f64,
    causal: bool,
) -> BackendResult<()> {
    raw.check_ready()?;
    let (d, dtype, call) = (raw.device(), raw.others, "attention");
    let q = raw.row_major(call, "q_ptr", q, &[b, h, l, width], dtype)?;
    let k = raw.row_major(call, "k_ptr", k, &[b, h, s, width], dtype)?;
    let v = raw.row_major(call, "v_ptr", v, &[b, h, s, width], dtype)?;
    let o = raw.row_major(call, "o_ptr", o, &[b, h, l, width], dtype)?;
    o.is_apart_from(&[&q, &k, &v])?;
    let shape = o.layout.shape().clone();
    if shape.numel() == 0 {
        return Ok(());
    }
    let (q, k, v) = (q.read(d)?, k.read(d)?, v.read(d)?);
    // The backends' own rule ends at the first key for the first query.
    let mask = if causal && l != s { Some(last_sees_all(raw, [b, h, l, s])?) } else { None };
    let a = Attention { scale, causal: causal && l == s, precision: raw.precision() };
    let mask_view = mask.as_ref().map(Array::view);
    let (y, _) = B::attention(d, &a, q.view(), k.view(), v.view(), mask_view)?;
    drop((q, k, v));
    o.write(d, Array::new(d, y, shape, dtype))
}

/// The mask in which query i sees keys 0..=(i + s - l). It depends on key - query alone, so a line
/// of l + s - 1 values, read backwards by queries and forwards by keys, is all of it.
fn last_sees_all<B: Backend>(raw: &Raw<B>, [b, h, l, s]: [usize; 4]) -> BackendResult<Array<B>> {
    let len = l + s - 1;
    let mut line = elinvar_core::host::with_capacity(len)?;
    line.extend((0..len).map(|i| i < s));
    let line = Array::from_vec(raw.device(), line, &[len])?;
    Ok(line.with_layout(Layout::strided(Shape::new(&[b, h, l, s])?, &[0, 0, -1, 1], l - 1, len)?))
}

impl<B: Backend> Raw<B> {
    /// The gradient of [`conv2d_forward`](crate::ComputeBackend::conv2d_forward) by the input: of
    /// grad_output [n, k, oh, ow] and filter [k, c, r, s], for an input [n, c, h, w].
    ///
    /// # Errors
    /// Those of `conv2d_forward`.
    pub fn conv2d_backward_data(
        &self,
        grad_output_ptr: u64,
        grad_output_shape: &[usize],
        filter_ptr: u64,
        filter_shape: &[usize],
        grad_input_ptr: u64,
        grad_input_shape: &[usize],
        stride: &[usize],
        padding: &[usize],
    ) -> BackendResult<()> {
        let x = ("grad_input_ptr", grad_input_ptr, grad_input_shape);
        let w = ("filter_ptr", filter_ptr, filter_shape);
        let y = ("grad_output_ptr", grad_output_ptr, grad_output_shape);
        conv(self, Pass::Input, [x, w, y], stride, padding)
    }
    /// The gradient of [`conv2d_forward`](crate::ComputeBackend::conv2d_forward) by the filter: of
    /// input [n, c, h, w] and grad_output [n, k, oh, ow], for a filter [k, c, r, s].
    ///
    /// # Errors
    /// Those of `conv2d_forward`.
    pub fn conv2d_backward_filter(
        &self,
        input_ptr: u64,
        input_shape: &[usize],
        grad_output_ptr: u64,
        grad_output_shape: &[usize],
        grad_filter_ptr: u64,
        grad_filter_shape: &[usize],
        stride: &[usize],
        padding: &[usize],
    ) -> BackendResult<()> {
        let x = ("input_ptr", input_ptr, input_shape);
        let w = ("grad_filter_ptr", grad_filter_ptr, grad_filter_shape);
        let y = ("grad_output_ptr", grad_output_ptr, grad_output_shape);
        conv(self, Pass::Filter, [x, w, y], stride, padding)
    }
}
