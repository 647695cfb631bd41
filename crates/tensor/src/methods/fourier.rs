//! Fourier transforms. Complex numbers are pairs (re, im) along the last axis, which axes named in
//! `dim` do not count.

use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::Result;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::fourier::Norm;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::catalogue::stft::Frames;

methods! {
    /// The discrete Fourier transform of [.., n, 2] along axis `dim`, cut or filled with zeros to
    /// `n` elements.
    fn fft, try_fft(n: Option<usize>, dim: isize, norm: Norm) -> Tensor<B> = |x| op::fft(x, n, dim, norm);
    /// The inverse of [`Tensor::fft`].
    fn ifft, try_ifft(n: Option<usize>, dim: isize, norm: Norm) -> Tensor<B> = |x| op::ifft(x, n, dim, norm);
    /// The first n / 2 + 1 elements of the transform of real numbers along axis `dim`, as pairs.
    fn rfft, try_rfft(n: Option<usize>, dim: isize, norm: Norm) -> Tensor<B> = |x| op::rfft(x, n, dim, norm);
    /// The inverse of [`Tensor::rfft`]: `n` real numbers, or 2 (m - 1) from m elements.
    fn irfft, try_irfft(n: Option<usize>, dim: isize, norm: Norm) -> Tensor<B> = |x| op::irfft(x, n, dim, norm);
    /// [`Tensor::fft`] over two axes.
    fn fft2, try_fft2(s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Tensor<B> =
        |x| op::fft2(x, s, dim, norm);
    /// [`Tensor::ifft`] over two axes.
    fn ifft2, try_ifft2(s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Tensor<B> =
        |x| op::ifft2(x, s, dim, norm);
    /// [`Tensor::rfft`] over two axes.
    fn rfft2, try_rfft2(s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Tensor<B> =
        |x| op::rfft2(x, s, dim, norm);
    /// [`Tensor::irfft`] over two axes.
    fn irfft2, try_irfft2(s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Tensor<B> =
        |x| op::irfft2(x, s, dim, norm);
    /// [`Tensor::fft`] over several axes, all without `dim`.
    fn fftn, try_fftn(s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Tensor<B> =
        |x| op::fftn(x, s, dim, norm);
    /// [`Tensor::ifft`] over several axes.
    fn ifftn, try_ifftn(s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Tensor<B> =
        |x| op::ifftn(x, s, dim, norm);
    /// [`Tensor::rfft`] over several axes; the last one named has half the spectrum.
    fn rfftn, try_rfftn(s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Tensor<B> =
        |x| op::rfftn(x, s, dim, norm);
    /// [`Tensor::irfft`] over several axes.
    fn irfftn, try_irfftn(s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Tensor<B> =
        |x| op::irfftn(x, s, dim, norm);
    /// The transforms of windows of a signal, times a window function: \[l\] gives
    /// [frequencies, windows, 2], [n, l] the same for each row.
    fn stft, try_stft(window: Option<&Tensor<B>>, frames: &Frames, pad_mode: Mode) -> Tensor<B> =
        |x| op::stft(x, window, frames, pad_mode);
    /// The inverse of [`Tensor::stft`], cut or filled with zeros to `length`.
    fn istft, try_istft(window: Option<&Tensor<B>>, frames: &Frames, length: Option<usize>) -> Tensor<B> =
        |x| op::istft(x, window, frames, length);
}
