//! Shared by all convolutions: the three ops, the checks, the sizes.
//!
//! Convolution is linear in x and in the weight, so its two gradients are ops of the same kind, and
//! each of the three has the other two as gradients: three structs give derivatives of any order.
//! The transposed convolution is the gradient by the input under another name.
//!
//! How it can be wrong: a size. Several input sizes give one output size when the stride is above
//! 1, so the ops carry the size of their result instead of inferring it.

use super::matmul::precision;
use super::{add, pad, reshape, sum};
use crate::array;
use crate::prelude::*;

/// How an input is padded with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// This many on both sides; one number for all axes, or one per axis.
    Sizes(Vec<usize>),
    /// As much as makes the output as large as the input; an odd one is added at the end. Only with
    /// stride 1.
    Same,
    /// None.
    Valid,
}

impl<T: AsRef<[usize]>> From<T> for Padding {
    fn from(sizes: T) -> Self {
        Padding::Sizes(sizes.as_ref().to_vec())
    }
}

/// y[n, o, s'] = sum over (c, taps) of x[n, c, s] * w[o, c, tap], + bias\[o\] if there is a third
/// operand.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Stride, padding, dilation, groups.
    pub conv: Conv,
    /// The spatial sizes of the result.
    pub out: Dims,
}

/// The gradient of a convolution by its input: of g[n, o, s'] and w[o, c / groups, taps].
#[derive(Clone, Debug)]
pub struct InputGrad {
    /// Stride, padding, dilation, groups.
    pub conv: Conv,
    /// The spatial sizes of the input.
    pub spatial: Dims,
}

/// The gradient of a convolution by its weight: of x[n, c, s] and g[n, o, s'].
#[derive(Clone, Debug)]
pub struct WeightGrad {
    /// Stride, padding, dilation, groups.
    pub conv: Conv,
    /// The spatial sizes of the weight.
    pub taps: Dims,
}

/// [a, b, rest..]
fn shape(a: usize, b: usize, rest: &[usize]) -> Result<Shape> {
    let mut dims = Dims::from_slice(&[a, b]);
    dims.extend_from_slice(rest);
    Shape::new(&dims)
}

/// The spatial sizes of a shape [a, b, spatial..].
fn spatial(s: &Shape) -> Dims {
    Dims::from_slice(&s[2..])
}

/// A bias [o] as [o, 1, 1, ..], which broadcasts against [n, o, spatial..].
fn column(o: usize, axes: usize) -> Shape {
    let mut dims = Dims::from_elem(1, axes + 1);
    dims[0] = o;
    Shape::new(&dims).expect("as large as the bias")
}

impl Op for Forward {
    fn name(&self) -> &'static str {
        "conv"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device("conv", x)?;
        let (input, w) = (x[0], x[1]);
        let to = shape(input.shape()[0], w.shape()[0], &self.out)?;
        let (device, conv, out) = (input.device(), &self.conv, &self.out);
        let buffer = match x.get(2) {
            None => B::conv(device, conv, input.view(), w.view(), out, None, &[])?,
            Some(bias) => {
                let bias = bias.reshape(&column(w.shape()[0], out.len()))?.broadcast_to(&to, "conv")?;
                let add = AddBias::object(&Compiled(AddBias));
                B::conv(device, conv, input.view(), w.view(), out, Some(add), &[bias.view()])?
            }
        };
        Ok(Outputs::from_iter([Array::new(device, buffer, to, input.dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a convolution has one result");
        let conv = &self.conv;
        let by_x = || V::apply(InputGrad { conv: conv.clone(), spatial: spatial(c.shape(0)) }, &[g, c.x(1)]);
        let by_w = || V::apply(WeightGrad { conv: conv.clone(), taps: spatial(c.shape(1)) }, &[c.x(0), g]);
        let mut all = vec![c.want(0, by_x)?, c.want(1, by_w)?];
        if c.len() == 3 {
            let rest: Vec<isize> = (0..g.shape().rank() as isize).filter(|&a| a != 1).collect();
            all.push(c.want(2, || sum(g, Some(&rest), false))?);
        }
        Ok(all)
    }
}

impl Op for InputGrad {
    fn name(&self) -> &'static str {
        "conv_input_grad"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device("conv_input_grad", x)?;
        let (g, w) = (x[0], x[1]);
        let to = shape(g.shape()[0], w.shape()[1] * self.conv.groups, &self.spatial)?;
        let buffer = B::conv_input_grad(g.device(), &self.conv, g.view(), w.view(), &self.spatial)?;
        Ok(Outputs::from_iter([Array::new(g.device(), buffer, to, g.dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, h: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let h = h[0].as_ref().expect("a convolution has one result");
        let conv = &self.conv;
        let by_g = || V::apply(Forward { conv: conv.clone(), out: spatial(c.shape(0)) }, &[h, c.x(1)]);
        let by_w = || V::apply(WeightGrad { conv: conv.clone(), taps: spatial(c.shape(1)) }, &[h, c.x(0)]);
        Ok(vec![c.want(0, by_g)?, c.want(1, by_w)?])
    }
}

impl Op for WeightGrad {
    fn name(&self) -> &'static str {
        "conv_weight_grad"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device("conv_weight_grad", x)?;
        let (input, g) = (x[0], x[1]);
        let to = shape(g.shape()[1], input.shape()[1] / self.conv.groups, &self.taps)?;
        let buffer = B::conv_weight_grad(g.device(), &self.conv, input.view(), g.view(), &self.taps)?;
        Ok(Outputs::from_iter([Array::new(g.device(), buffer, to, g.dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, h: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let h = h[0].as_ref().expect("a convolution has one result");
        let conv = &self.conv;
        let by_x = || V::apply(InputGrad { conv: conv.clone(), spatial: spatial(c.shape(0)) }, &[c.x(1), h]);
        let by_g = || V::apply(Forward { conv: conv.clone(), out: spatial(c.shape(1)) }, &[c.x(0), h]);
        Ok(vec![c.want(0, by_x)?, c.want(1, by_g)?])
    }
}

/// Strides, paddings and dilations above this are rejected, as they would overflow the arithmetic
/// of a device.
const LARGEST: usize = i32::MAX as usize;

/// One number per axis: as given, or one for all. Each must be in `least..=LARGEST`.
pub(super) fn per_axis(
    op: &str,
    name: &str,
    given: &[usize],
    axes: usize,
    least: usize,
) -> Result<Vec<usize>> {
    let all = match given.len() {
        1 => vec![given[0]; axes],
        n if n == axes => given.to_vec(),
        n => {
            return Err(Error::argument(format!(
                "{op}: {name} {given:?} has {n} numbers; 1 or {axes} would fit"
            )));
        }
    };
    match all.iter().find(|&&v| v < least || v > LARGEST) {
        None => Ok(all),
        Some(v) => Err(Error::argument(format!("{op}: {name} {v} is not in {least}..={LARGEST}"))),
    }
}

/// dilation * (taps - 1) + 1: the extent of a kernel.
pub(super) fn reach(op: &str, taps: usize, dilation: usize) -> Result<usize> {
    taps.checked_sub(1)
        .and_then(|t| t.checked_mul(dilation))
        .and_then(|r| r.checked_add(1))
        .filter(|&r| r <= isize::MAX as usize / 4)
        .ok_or_else(|| Error::argument(format!("{op}: a kernel of {taps} taps with dilation {dilation}")))
}

/// The attributes of a convolution, as a caller gives them.
pub(super) struct Given<'a> {
    /// The op's name.
    pub op: &'static str,
    /// Number of spatial axes.
    pub axes: usize,
    /// Step between windows.
    pub stride: &'a [usize],
    /// Distance between taps.
    pub dilation: &'a [usize],
    /// Channel groups.
    pub groups: usize,
}

impl Given<'_> {
    /// Stride and dilation per axis, without padding, with the precision of products of `x`.
    fn conv<V: Value>(&self, x: &V) -> Result<Conv> {
        if self.groups == 0 {
            return Err(Error::argument(format!("{}: groups is 0; it must be 1 at least", self.op)));
        }
        Ok(Conv {
            stride: per_axis(self.op, "stride", self.stride, self.axes, 1)?,
            padding: vec![0; self.axes],
            dilation: per_axis(self.op, "dilation", self.dilation, self.axes, 1)?,
            groups: self.groups,
            precision: precision(x),
        })
    }
    /// Checks ranks, dtypes, channels and bias; returns `x` with a batch axis, and whether it had
    /// one.
    fn operands<V: Value>(&self, x: &V, w: &V, bias: Option<&V>, transposed: bool) -> Result<(V, bool)> {
        let (op, axes, groups) = (self.op, self.axes, self.groups);
        let (xs, ws) = (x.shape(), w.shape());
        if !(xs.rank() == axes + 1 || xs.rank() == axes + 2) || ws.rank() != axes + 2 {
            return Err(Error::shape(format!(
                "{op}: input {xs}, weight {ws}; the input has {} axes (or {} without a batch), the weight {}",
                axes + 2,
                axes + 1,
                axes + 2
            )));
        }
        let arrays: Vec<_> = [x, w].into_iter().chain(bias).map(|v| v.array()).collect();
        let dtype = x.dtype();
        if !dtype.is_float() || arrays.iter().any(|a| a.dtype() != dtype) {
            let seen: Vec<_> = arrays.iter().map(|a| a.dtype().name()).collect();
            return Err(Error::dtype(format!(
                "{op}: operands are {}; all must be of one float type",
                seen.join(", ")
            )));
        }
        let c = xs[xs.rank() - axes - 1];
        if transposed {
            if c != ws[0] {
                return Err(Error::shape(format!(
                    "{op}: input {xs} has {c} channels, weight {ws} expects {}",
                    ws[0]
                )));
            }
            if !c.is_multiple_of(groups) {
                return Err(Error::shape(format!(
                    "{op}: {c} input channels do not divide into {groups} groups"
                )));
            }
        } else {
            if ws[1].checked_mul(groups) != Some(c) {
                return Err(Error::shape(format!(
                    "{op}: input {xs} has {c} channels, weight {ws} expects {} (times {groups} groups)",
                    ws[1]
                )));
            }
            if !ws[0].is_multiple_of(groups) {
                return Err(Error::shape(format!(
                    "{op}: {} output channels of weight {ws} do not divide into {groups} groups",
                    ws[0]
                )));
            }
        }
        let o = if transposed { ws[1].saturating_mul(groups) } else { ws[0] };
        if let Some(b) = bias
            && b.shape()[..] != [o]
        {
            return Err(Error::shape(format!(
                "{op}: bias {} should be [{o}], one number per channel",
                b.shape()
            )));
        }
        if let Some(k) = ws[2..].iter().find(|&&k| k == 0) {
            return Err(Error::shape(format!("{op}: weight {ws} has a kernel of size {k}")));
        }
        if xs.rank() == axes + 2 {
            return Ok((x.clone(), true));
        }
        Ok((reshape::to_shape(x, &shape(1, xs[0], &xs[1..])?)?, false))
    }
    /// A convolution.
    pub(super) fn forward<V: Value>(&self, x: &V, w: &V, bias: Option<&V>, padding: &Padding) -> Result<V> {
        autocast!(self.op, x, w; bias => self.forward(x, w, bias, padding));
        let op = self.op;
        let mut conv = self.conv(x)?;
        let (mut x, batched) = self.operands(x, w, bias, false)?;
        let taps = spatial(w.shape());
        match padding {
            Padding::Valid => {}
            Padding::Sizes(sizes) => conv.padding = per_axis(op, "padding", sizes, self.axes, 0)?,
            Padding::Same => {
                if let Some(s) = conv.stride.iter().find(|&&s| s != 1) {
                    return Err(Error::argument(format!("{op}: padding same needs stride 1, and it is {s}")));
                }
                // The odd zero at the end is copied into the input; symmetric padding is left to
                // the kernel.
                let mut odd = vec![];
                for i in (0..self.axes).rev() {
                    let total = reach(op, taps[i], conv.dilation[i])? - 1;
                    conv.padding[i] = total / 2;
                    odd.extend([0, (total % 2) as isize]);
                }
                if odd.contains(&1) {
                    x = pad(&x, &odd, pad::Mode::Constant(Scalar::Int(0)))?;
                }
            }
        }
        let mut out = Dims::new();
        for (i, &n) in x.shape()[2..].iter().enumerate() {
            let reach = reach(op, taps[i], conv.dilation[i])?;
            let padded = n.saturating_add(2 * conv.padding[i]);
            if reach > padded {
                return Err(Error::shape(format!(
                    "{op}: the kernel reaches over {reach} elements of spatial axis {i} ({} taps, dilation {}), and \
                     the input has {n} (with padding {padded})",
                    taps[i], conv.dilation[i]
                )));
            }
            out.push((padded - reach) / conv.stride[i] + 1);
        }
        let op = Forward { conv, out };
        unbatch(
            match bias {
                None => V::apply(op, &[&x, w])?,
                Some(b) => V::apply(op, &[&x, w, b])?,
            },
            batched,
        )
    }
    /// A transposed convolution.
    pub(super) fn transposed<V: Value>(
        &self,
        x: &V,
        w: &V,
        bias: Option<&V>,
        padding: &[usize],
        output_padding: &[usize],
    ) -> Result<V> {
        autocast!(self.op, x, w; bias => self.transposed(x, w, bias, padding, output_padding));
        let op = self.op;
        let mut conv = self.conv(x)?;
        conv.padding = per_axis(op, "padding", padding, self.axes, 0)?;
        let extra = per_axis(op, "output_padding", output_padding, self.axes, 0)?;
        let (x, batched) = self.operands(x, w, bias, true)?;
        let mut spatial = Dims::new();
        for (i, &n) in x.shape()[2..].iter().enumerate() {
            let (s, p, d) = (conv.stride[i], conv.padding[i], conv.dilation[i]);
            if extra[i] >= s.max(d) {
                return Err(Error::argument(format!(
                    "{op}: output_padding {} must be below the stride {s} or the dilation {d}",
                    extra[i]
                )));
            }
            let reach = reach(op, w.shape()[2 + i], d)?;
            let size = (n as i128 - 1) * s as i128 - 2 * p as i128 + reach as i128 + extra[i] as i128;
            if size < 1 {
                return Err(Error::shape(format!(
                    "{op}: {n} elements of spatial axis {i} with stride {s}, padding {p}, a kernel that reaches over \
                     {reach} and output_padding {} give an output of size {size}",
                    extra[i]
                )));
            }
            spatial.push(
                usize::try_from(size)
                    .map_err(|_| Error::memory(format!("{op}: an output of size {size}")))?,
            );
        }
        let axes = spatial.len();
        let op = InputGrad { conv, spatial };
        let y = match bias {
            None => V::apply(op, &[&x, w])?,
            // This kind of work has no epilogue; in f32 the sum is rounded only after the bias is
            // added.
            Some(b) => widen([&x, w, b], |[x, w, b]| {
                add(&V::apply(op, &[x, w])?, &reshape::to_shape(b, &column(b.shape()[0], axes))?)
            })?,
        };
        unbatch(y, batched)
    }
}

/// Removes the batch axis that was added.
fn unbatch<V: Value>(y: V, batched: bool) -> Result<V> {
    if batched { Ok(y) } else { reshape::to_shape(&y, &y.shape().without(&[0], false)) }
}

/// The attribute padding: numbers, or the word same or valid.
pub(super) fn padding<V: Value>(a: &Args<V>) -> Result<Padding> {
    match a.str("padding") {
        Ok("same") => Ok(Padding::Same),
        Ok("valid") => Ok(Padding::Valid),
        Ok(word) => {
            Err(Error::argument(format!("{}: padding {word}; there are same, valid and numbers", a.op)))
        }
        Err(_) => Ok(Padding::Sizes(a.sizes("padding")?)),
    }
}
