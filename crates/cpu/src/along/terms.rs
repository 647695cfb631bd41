//! Terms and results of a row, written as they are computed.
//!
//! How it can be wrong: at the end of a row. Whole windows are computed there too, of whatever stands behind the row, and
//! what is not the row's is thrown away.

/// Elements that are computed together: four registers of AVX-512 of f32, eight of AVX2.
pub(super) const WINDOW: usize = 64;
/// A row's last elements are not worth a window if they are no more than these: one such register.
const FEW: usize = 16;

/// Numbers that are computed, in windows. Unlike closures, these functions can be `#[inline(always)]`, and must be: in a
/// function of their own they would be compiled without the kernel's instruction set.
pub(crate) trait Terms<T>: Copy {
    /// What the elements of a window are computed from.
    type Window: Copy;
    /// A window by number.
    fn window(&self, number: usize) -> Self::Window;
    /// Element `j` of a window.
    fn at(&self, w: &Self::Window, j: usize) -> T;
}

/// Writes the first elements.
#[inline(always)]
pub(super) fn write<T: Copy>(x: impl Terms<T>, y: &mut [T], zero: T) {
    let (whole, rest) = y.as_chunks_mut::<WINDOW>();
    for (window, y) in whole.iter_mut().enumerate() {
        let w = x.window(window);
        for (j, y) in y.iter_mut().enumerate() {
            *y = x.at(&w, j);
        }
    }
    if rest.len() > FEW {
        let w = x.window(whole.len());
        let mut all = [zero; WINDOW];
        for (j, y) in all.iter_mut().enumerate() {
            *y = x.at(&w, j);
        }
        rest.copy_from_slice(&all[..rest.len()]);
    } else if !rest.is_empty() {
        let w = x.window(whole.len());
        let mut all = [zero; FEW];
        for (j, y) in all.iter_mut().enumerate() {
            *y = x.at(&w, j);
        }
        rest.copy_from_slice(&all[..rest.len()]);
    }
}
