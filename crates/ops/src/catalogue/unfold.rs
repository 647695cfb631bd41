//! unfold: the patches of an image as columns (im2col).

use super::{fold, reshape};
use crate::prelude::*;

/// The windows of a two-dimensional unfold or fold: one entry for rows and one for columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patches {
    /// Size of a window.
    pub kernel: [usize; 2],
    /// Dilation: distance of the elements in a window.
    pub dilation: [usize; 2],
    /// Zeros on both sides.
    pub padding: [usize; 2],
    /// Stride: distance of the windows.
    pub stride: [usize; 2],
}

impl Patches {
    /// The number of windows along both axes of an image of this size.
    ///
    /// # Errors
    /// `InvalidArgument` if a size, dilation or stride is 0, or no window fits.
    pub fn windows(&self, op: &str, size: [usize; 2]) -> Result<[usize; 2]> {
        let wrong = || {
            Error::argument(format!(
                "{op}: windows of {:?}, dilation {:?}, stride {:?} do not fit into an image of {size:?} with padding {:?}",
                self.kernel, self.dilation, self.stride, self.padding
            ))
        };
        let one = |i: usize| {
            let reach = self.kernel[i]
                .checked_sub(1)?
                .checked_mul(self.dilation[i].checked_sub(1)? + 1)?
                .checked_add(1)?;
            let padded = self.padding[i].checked_mul(2)?.checked_add(size[i])?;
            Some(padded.checked_sub(reach)?.checked_div(self.stride[i])? + 1)
        };
        let n = [one(0).ok_or_else(wrong)?, one(1).ok_or_else(wrong)?];
        // All sizes derived from these then fit into `usize`.
        Shape::new(&[n[0], n[1], self.kernel[0], self.kernel[1]])?;
        Shape::new(&self.padded(size))?;
        Ok(n)
    }
    /// The size of an image with its padding.
    pub(super) fn padded(&self, size: [usize; 2]) -> [usize; 2] {
        [size[0] + 2 * self.padding[0], size[1] + 2 * self.padding[1]]
    }
}

/// x[n, c, h, w] to y[n, c * kernel, windows].
#[derive(Clone, Copy, Debug)]
pub struct Unfold {
    /// The windows.
    pub patches: Patches,
}

impl Op for Unfold {
    fn name(&self) -> &'static str {
        "unfold"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let p = &self.patches;
        let [n, c, h, w] = x[0].shape()[..] else { unreachable!("an image has four axes") };
        let [rows, cols] = p.windows("unfold", [h, w])?;
        let image = if p.padding == [0, 0] {
            x[0].clone()
        } else {
            let [ph, pw] = p.padded([h, w]);
            let padded = Shape::new(&[n, c, ph, pw])?;
            let inside =
                Layout::contiguous(padded.clone()).slice(2, p.padding[0], h, 1).slice(3, p.padding[1], w, 1);
            let buffer =
                B::assemble(x[0].device(), Scalar::Int(0), x[0].dtype(), &padded, &[(x[0].view(), inside)])?;
            Array::new(x[0].device(), buffer, padded, x[0].dtype())
        };
        let mut layout = image.layout().clone();
        for i in 0..2 {
            let reach = (p.kernel[i] - 1) * p.dilation[i] + 1;
            let step = p.stride[i].min(layout.shape()[2 + i]);
            layout = layout.unfold(2 + i, reach, step)?;
            layout = layout.slice(4 + i, 0, p.kernel[i], p.dilation[i].min(reach) as isize);
        }
        let columns = image.with_layout(layout.permute(&[0, 1, 4, 5, 2, 3]));
        let shape = Shape::new(&[n, c * p.kernel[0] * p.kernel[1], rows * cols])?;
        Ok(Outputs::from_iter([columns.reshape(&shape)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("unfold has one result");
        let [.., h, w] = c.shape(0)[..] else { unreachable!("an image has four axes") };
        Ok(vec![Some(fold(g, [h, w], &self.patches)?)])
    }
}

/// The patches of images `x` [n, c, h, w] (or [c, h, w]) as columns: [n, c * kernel, windows], both
/// in row-major order.
///
/// # Errors
/// `ShapeMismatch` if x has another rank; `InvalidArgument` if no window fits; `OutOfMemory`.
pub fn unfold<V: Value>(x: &V, patches: &Patches) -> Result<V> {
    match x.shape()[..] {
        [_, _, _, _] => V::apply(Unfold { patches: *patches }, &[x]),
        [c, h, w] => {
            let one = reshape::to_shape(x, &Shape::new(&[1, c, h, w])?)?;
            let y = V::apply(Unfold { patches: *patches }, &[&one])?;
            reshape::to_shape(&y, &y.shape().without(&[0], false))
        }
        _ => Err(Error::shape(format!("unfold: shape {}; an image is [n, c, h, w] or [c, h, w]", x.shape()))),
    }
}

/// One or two sizes as two.
pub(super) fn pair<V: Value>(a: &Args<V>, name: &str) -> Result<[usize; 2]> {
    match a.sizes(name)?[..] {
        [both] => Ok([both, both]),
        [rows, cols] => Ok([rows, cols]),
        ref other => Err(Error::argument(format!(
            "{}: attribute {name} is {other:?}; it holds one size for rows and one for columns",
            a.op
        ))),
    }
}

/// The attributes kernel_size, dilation, padding and stride.
pub(super) fn patches<V: Value>(a: &Args<V>) -> Result<Patches> {
    Ok(Patches {
        kernel: pair(a, "kernel_size")?,
        dilation: pair(a, "dilation")?,
        padding: pair(a, "padding")?,
        stride: pair(a, "stride")?,
    })
}

/// By name: operand x; attributes kernel_size, dilation, padding and stride.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![unfold(a.input("x")?, &patches(a)?)?])
}
