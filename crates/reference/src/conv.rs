//! Convolution and its two gradients, over one to three spatial axes.
//!
//! Everything is expressed once in row-major indices: of a position in the input plane, of a
//! position in the output plane, of a kernel tap. Two tables say which of them meet:
//! [`Grid::inputs`] for the convolution and the gradient of the weight, [`Grid::outputs`] for the
//! gradient of the input. Given the tables, a convolution is a contraction.

use crate::View;
use crate::compute::{Compute, each_float, unravel};
use crate::contract::{Chains, epilogue};
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::{Dims, HostData, Result};
use elinvar_ops::backend::{Conv, EpilogueObject};

/// The spatial part of a convolution.
struct Grid<'a> {
    conv: &'a Conv,
    /// Sizes of the input plane, of the kernel, and of the output plane.
    spatial: Dims,
    taps: Dims,
    out: Dims,
}

/// Channels, counted per group.
struct Groups {
    batch: usize,
    groups: usize,
    /// Input and output channels of one group.
    c: usize,
    o: usize,
    /// Elements of the input plane, the kernel, the output plane.
    spatial: usize,
    taps: usize,
    out: usize,
}

impl Grid<'_> {
    fn groups(&self, batch: usize, c_per_group: usize, o: usize) -> Groups {
        Groups {
            batch,
            groups: self.conv.groups,
            c: c_per_group,
            o: o / self.conv.groups,
            spatial: self.spatial.iter().product(),
            taps: self.taps.iter().product(),
            out: self.out.iter().product(),
        }
    }
    /// For each output position and each tap: the input position under it, `None` in the padding.
    fn inputs(&self) -> Result<Vec<Option<usize>>> {
        let (outs, taps): (usize, usize) = (self.out.iter().product(), self.taps.iter().product());
        let mut table = with_capacity(outs.saturating_mul(taps))?;
        for p in 0..outs {
            let p = unravel(p, &self.out);
            for t in 0..taps {
                let t = unravel(t, &self.taps);
                table.push(flat(&self.spatial, |axis| {
                    let from_padding = p[axis] * self.conv.stride[axis] + t[axis] * self.conv.dilation[axis];
                    from_padding.checked_sub(self.conv.padding[axis])
                }));
            }
        }
        Ok(table)
    }
    /// For each input position: the taps through which it meets the grid of output positions, in
    /// ascending order, with the output position; `None` if that is outside the output.
    fn outputs(&self) -> Result<Vec<Vec<(usize, Option<usize>)>>> {
        let (inputs, taps): (usize, usize) = (self.spatial.iter().product(), self.taps.iter().product());
        let mut table = with_capacity(inputs)?;
        for s in 0..inputs {
            let s = unravel(s, &self.spatial);
            let meets = |t: usize| {
                let t = unravel(t, &self.taps);
                // Output position times stride: negative left of the output.
                let scaled = |axis: usize| {
                    (s[axis] + self.conv.padding[axis]) as isize
                        - (t[axis] * self.conv.dilation[axis]) as isize
                };
                (0..t.len()).all(|axis| scaled(axis) % self.conv.stride[axis] as isize == 0).then(|| {
                    flat(&self.out, |axis| {
                        usize::try_from(scaled(axis)).ok().map(|p| p / self.conv.stride[axis])
                    })
                })
            };
            table.push((0..taps).filter_map(|t| meets(t).map(|p| (t, p))).collect());
        }
        Ok(table)
    }
}

/// The row-major position of an index, if all of it exists and is in range.
fn flat(dims: &[usize], index: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let inside = |axis: usize| index(axis).filter(|&i| i < dims[axis]);
    (0..dims.len()).try_fold(0, |n, axis| Some(n * dims[axis] + inside(axis)?))
}

/// y[n, o, s'] = epilogue(sum over (c, taps) of x[n, c, s] * w[o, c, tap])
pub fn conv(
    conv: &Conv,
    x: &View,
    w: &View,
    out: &[usize],
    e: Option<&dyn EpilogueObject>,
    extra: &[View],
) -> Result<HostData> {
    let (xs, ws) = (x.shape(), w.shape());
    let grid = Grid { conv, spatial: xs[2..].into(), taps: ws[2..].into(), out: out.into() };
    let g = grid.groups(xs[0], ws[1], ws[0]);
    each_float!("a convolution", x.buffer.dtype(), C => {
        let (xv, wv) = (C::load(x.buffer, x.layout)?, C::load(w.buffer, w.layout)?);
        let y = forward::<C>(&grid, &g, &xv, &wv)?;
        C::store(epilogue::<C>(y, e, extra)?, x.buffer.dtype())
    })
}

fn forward<C: Compute>(grid: &Grid, g: &Groups, x: &[C], w: &[C]) -> Result<Vec<C>> {
    let table = grid.inputs()?;
    // w[group, (c, taps), o], so that the sums of all output channels run in parallel.
    let terms = g.c * g.taps;
    let mut turned = filled(w.len(), C::NOTHING)?;
    for group in 0..g.groups {
        for o in 0..g.o {
            for k in 0..terms {
                turned[(group * terms + k) * g.o + o] = w[(group * g.o + o) * terms + k];
            }
        }
    }
    let mut y = filled(g.batch * g.groups * g.o * g.out, C::NOTHING)?;
    let mut sums = Chains::new(g.o)?;
    for n in 0..g.batch {
        for group in 0..g.groups {
            for p in 0..g.out {
                sums.clear();
                for c in 0..g.c {
                    let plane = (n * g.groups + group) * g.c + c;
                    for t in 0..g.taps {
                        let at = table[p * g.taps + t].map_or(C::NOTHING, |s| x[plane * g.spatial + s]);
                        let k = group * terms + c * g.taps + t;
                        sums.add(at, &turned[k * g.o..(k + 1) * g.o]);
                    }
                }
                for (o, &sum) in sums.sums().iter().enumerate() {
                    y[((n * g.groups + group) * g.o + o) * g.out + p] = sum;
                }
            }
        }
    }
    Ok(y)
}

/// dx[n, c, s]: terms g * w over (o, taps), over those taps that meet the stride's grid.
pub fn input_grad(conv: &Conv, gy: &View, w: &View, spatial: &[usize]) -> Result<HostData> {
    let (gs, ws) = (gy.shape(), w.shape());
    let grid = Grid { conv, spatial: spatial.into(), taps: ws[2..].into(), out: gs[2..].into() };
    let g = grid.groups(gs[0], ws[1], ws[0]);
    each_float!("a convolution's gradient", gy.buffer.dtype(), C => {
        let (gv, wv) = (C::load(gy.buffer, gy.layout)?, C::load(w.buffer, w.layout)?);
        C::store(backward_input::<C>(&grid, &g, &gv, &wv)?, gy.buffer.dtype())
    })
}

fn backward_input<C: Compute>(grid: &Grid, g: &Groups, gy: &[C], w: &[C]) -> Result<Vec<C>> {
    let table = grid.outputs()?;
    // w[o, taps, c], so that the sums of all input channels of a group run in parallel.
    let mut turned = filled(w.len(), C::NOTHING)?;
    for o in 0..g.groups * g.o {
        for c in 0..g.c {
            for t in 0..g.taps {
                turned[(o * g.taps + t) * g.c + c] = w[(o * g.c + c) * g.taps + t];
            }
        }
    }
    let mut dx = filled(g.batch * g.groups * g.c * g.spatial, C::NOTHING)?;
    let mut sums = Chains::new(g.c)?;
    for n in 0..g.batch {
        for group in 0..g.groups {
            for (s, meets) in table.iter().enumerate() {
                sums.clear();
                for o in group * g.o..(group + 1) * g.o {
                    let plane = n * g.groups * g.o + o;
                    for &(t, p) in meets {
                        let at = p.map_or(C::NOTHING, |p| gy[plane * g.out + p]);
                        let k = o * g.taps + t;
                        sums.add(at, &turned[k * g.c..(k + 1) * g.c]);
                    }
                }
                for (c, &sum) in sums.sums().iter().enumerate() {
                    dx[((n * g.groups + group) * g.c + c) * g.spatial + s] = sum;
                }
            }
        }
    }
    Ok(dx)
}

/// dw[o, c, tap]: terms x * g over (n, s').
pub fn weight_grad(conv: &Conv, x: &View, gy: &View, taps: &[usize]) -> Result<HostData> {
    let (xs, gs) = (x.shape(), gy.shape());
    let grid = Grid { conv, spatial: xs[2..].into(), taps: taps.into(), out: gs[2..].into() };
    let g = grid.groups(xs[0], xs[1] / conv.groups, gs[1]);
    each_float!("a convolution's gradient", x.buffer.dtype(), C => {
        let (xv, gv) = (C::load(x.buffer, x.layout)?, C::load(gy.buffer, gy.layout)?);
        C::store(backward_weight::<C>(&grid, &g, &xv, &gv)?, x.buffer.dtype())
    })
}

fn backward_weight<C: Compute>(grid: &Grid, g: &Groups, x: &[C], gy: &[C]) -> Result<Vec<C>> {
    let table = grid.inputs()?;
    let terms = g.c * g.taps;
    let mut dw = with_capacity(g.groups * g.o * terms)?;
    let mut patch = filled(terms, C::NOTHING)?;
    for group in 0..g.groups {
        let mut sums: Vec<Chains<C>> = (0..g.o).map(|_| Chains::new(terms)).collect::<Result<_>>()?;
        for n in 0..g.batch {
            for p in 0..g.out {
                for c in 0..g.c {
                    let plane = (n * g.groups + group) * g.c + c;
                    for t in 0..g.taps {
                        let at = table[p * g.taps + t].map_or(C::NOTHING, |s| x[plane * g.spatial + s]);
                        patch[c * g.taps + t] = at;
                    }
                }
                for (o, sums) in sums.iter_mut().enumerate() {
                    sums.add(gy[((n * g.groups + group) * g.o + o) * g.out + p], &patch);
                }
            }
        }
        sums.iter_mut().for_each(|s| dw.extend_from_slice(s.sums()));
    }
    Ok(dw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, noise, view};
    use elinvar_core::{DType, Precision, order};
    use elinvar_ops::backend::{AddBias, CompiledEpilogue};
    use elinvar_ops::map::Compiled;

    fn simple(rank: usize) -> Conv {
        Conv {
            stride: vec![1; rank],
            padding: vec![0; rank],
            dilation: vec![1; rank],
            groups: 1,
            precision: Precision::Exact,
        }
    }
    fn f32s(v: &[f32]) -> HostData {
        HostData::F32(v.to_vec().into())
    }

    #[test]
    fn one_axis_by_hand() {
        let x = f32s(&[1.0, 2.0, 3.0, 4.0]);
        let w = f32s(&[1.0, 10.0]);
        // stride, padding, dilation, output
        let rows: [(usize, usize, usize, &[f32]); 4] = [
            (1, 0, 1, &[21.0, 32.0, 43.0]),
            (2, 0, 1, &[21.0, 43.0]),
            (1, 1, 1, &[10.0, 21.0, 32.0, 43.0, 4.0]),
            (1, 0, 2, &[31.0, 42.0]),
        ];
        for (stride, padding, dilation, want) in rows {
            let c = Conv {
                stride: vec![stride],
                padding: vec![padding],
                dilation: vec![dilation],
                groups: 1,
                precision: Precision::Exact,
            };
            let (four, two) = (layout(&[1, 1, 4]), layout(&[1, 1, 2]));
            let (xv, wv) = (view(&x, &four), view(&w, &two));
            let y = conv(&c, &xv, &wv, &[want.len()], None, &[]).unwrap();
            assert_eq!(y, f32s(want), "{c:?}");
        }
    }

    #[test]
    fn groups_bias_and_strided_views() {
        // Two groups of one channel; x is stored back to front, w transposed.
        let x = f32s(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
        let xl = layout(&[1, 2, 3]).flip(1).flip(2);
        let w = f32s(&[1.0, 2.0, 10.0, 20.0]);
        let wl = layout(&[2, 1, 2]).transpose(0, 2);
        let bias = f32s(&[100.0, 200.0]);
        let shape = elinvar_core::Shape::new(&[1, 2, 2]).unwrap();
        let bl = layout(&[2, 1]).broadcast_to(&shape, "t").unwrap();
        let c = Conv { groups: 2, ..simple(1) };
        let y = conv(
            &c,
            &view(&x, &xl),
            &view(&w, &wl),
            &[2],
            Some(AddBias::object(&Compiled(AddBias))),
            &[view(&bias, &bl)],
        )
        .unwrap();
        assert_eq!(y, f32s(&[121.0, 132.0, 200.0 + 8.0 + 100.0, 200.0 + 10.0 + 120.0]));
    }

    #[test]
    fn padding_multiplies() {
        // 0 * inf is not 0: padding takes part like any other zero.
        let x = f32s(&[1.0]);
        let w = f32s(&[f32::INFINITY, 1.0]);
        let c = Conv { padding: vec![1], ..simple(1) };
        let y = conv(&c, &view(&x, &layout(&[1, 1, 1])), &view(&w, &layout(&[1, 1, 2])), &[2], None, &[]);
        let HostData::F32(y) = y.unwrap() else { panic!("another type") };
        assert!(y[0].is_nan() && y[1] == f32::INFINITY);
    }

    #[test]
    fn nothing_to_convolve() {
        let none = f32s(&[]);
        let w = f32s(&[1.0, 2.0]);
        let c = simple(1);
        let (xl, wl) = (layout(&[0, 1, 3]), layout(&[1, 1, 2]));
        assert_eq!(conv(&c, &view(&none, &xl), &view(&w, &wl), &[2], None, &[]).unwrap(), none);
        // No batch: the weight's gradient is an empty sum.
        let dw = weight_grad(&c, &view(&none, &xl), &view(&none, &layout(&[0, 1, 2])), &[2]).unwrap();
        assert_eq!(dw, f32s(&[0.0, 0.0]));
        // No channels: the result is an empty sum, too.
        let y =
            conv(&c, &view(&none, &layout(&[1, 0, 3])), &view(&none, &layout(&[1, 0, 2])), &[2], None, &[]);
        assert_eq!(y.unwrap(), f32s(&[0.0, 0.0]));
    }

    #[test]
    fn gradients_by_hand() {
        let x = f32s(&[1.0, 2.0, 3.0, 4.0]);
        let w = f32s(&[1.0, 10.0]);
        let g = f32s(&[1.0, 100.0]);
        let (xl, wl, gl) = (layout(&[1, 1, 4]), layout(&[1, 1, 2]), layout(&[1, 1, 2]));
        let c = Conv { stride: vec![2], ..simple(1) };
        let dx = input_grad(&c, &view(&g, &gl), &view(&w, &wl), &[4]).unwrap();
        assert_eq!(dx, f32s(&[1.0, 10.0, 100.0, 1000.0]));
        let dw = weight_grad(&c, &view(&x, &xl), &view(&g, &gl), &[2]).unwrap();
        assert_eq!(dw, f32s(&[301.0, 402.0]));
        // Input elements that no window reached.
        let dx = input_grad(&c, &view(&g, &gl), &view(&w, &wl), &[5]).unwrap();
        assert_eq!(dx, f32s(&[1.0, 10.0, 100.0, 1000.0, 0.0]));
    }

    /// Geometries over 1 to 3 axes: conv, batch, channels per group in and out, input, taps,
    /// output.
    fn geometries() -> Vec<(Conv, [usize; 3], Vec<usize>, Vec<usize>, Vec<usize>)> {
        let c = |stride: &[usize], padding: &[usize], dilation: &[usize], groups| Conv {
            stride: stride.into(),
            padding: padding.into(),
            dilation: dilation.into(),
            groups,
            precision: Precision::Exact,
        };
        vec![
            (c(&[1], &[0], &[1], 1), [2, 3, 2], vec![7], vec![3], vec![5]),
            (c(&[2], &[1], &[2], 2), [1, 2, 1], vec![9], vec![2], vec![5]),
            (c(&[1, 1], &[1, 1], &[1, 1], 1), [3, 60, 2], vec![4, 5], vec![3, 3], vec![4, 5]), // 540 terms
            (c(&[2, 3], &[0, 2], &[1, 2], 2), [2, 2, 3], vec![5, 8], vec![2, 3], vec![2, 3]),
            (
                c(&[1, 2, 1], &[1, 0, 2], &[2, 1, 1], 1),
                [2, 2, 2],
                vec![4, 5, 2],
                vec![2, 2, 3],
                vec![4, 2, 4],
            ),
        ]
    }

    /// The value of `v` at an index, 0 outside.
    fn at(v: &[f32], dims: &[usize], index: &[isize]) -> f32 {
        let mut n = 0;
        for (&i, &d) in index.iter().zip(dims) {
            if i < 0 || i >= d as isize {
                return 0.0;
            }
            n = n * d + i as usize;
        }
        v[n]
    }
    fn full(head: [usize; 2], tail: &[usize]) -> Vec<usize> {
        head.iter().chain(tail).copied().collect()
    }
    fn index(head: [usize; 2], tail: impl Iterator<Item = isize>) -> Vec<isize> {
        head.iter().map(|&i| i as isize).chain(tail).collect()
    }
    fn sum(terms: &[(f32, f32)]) -> u32 {
        order::contract(terms.len(), 0.0f32, |i| terms[i], |a, b, c| a.mul_add(b, c), |a, b| a + b).to_bits()
    }
    fn bits(y: HostData) -> Vec<u32> {
        let HostData::F32(y) = y else { panic!("another type") };
        y.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn every_element_has_the_canonical_order() {
        for (c, [n, cg, og], spatial, taps, out) in geometries() {
            let (ch, o) = (cg * c.groups, og * c.groups);
            let (xd, wd, yd) = (full([n, ch], &spatial), full([o, cg], &taps), full([n, o], &out));
            let count = |d: &[usize]| d.iter().product::<usize>();
            let (xs, ws, gs) = (noise(count(&xd), 1), noise(count(&wd), 2), noise(count(&yd), 3));
            let (x, w, g) = (f32s(&xs), f32s(&ws), f32s(&gs));
            let (xl, wl, gl) = (layout(&xd), layout(&wd), layout(&yd));
            let (xv, wv, gv) = (view(&x, &xl), view(&w, &wl), view(&g, &gl));
            let tap_indices: Vec<Dims> = (0..count(&taps)).map(|t| unravel(t, &taps)).collect();
            // The position of tap t of the window at output position p.
            let source = |p: &[usize], t: &[usize], a: usize| {
                (p[a] * c.stride[a] + t[a] * c.dilation[a]) as isize - c.padding[a] as isize
            };

            let y = bits(conv(&c, &xv, &wv, &out, None, &[]).unwrap());
            for (i, &got) in y.iter().enumerate() {
                let i = unravel(i, &yd);
                let mut terms = vec![];
                for ci in 0..cg {
                    for t in &tap_indices {
                        let channel = i[1] / og * cg + ci;
                        let xi = index([i[0], channel], (0..t.len()).map(|a| source(&i[2..], t, a)));
                        let wi = index([i[1], ci], t.iter().map(|&t| t as isize));
                        terms.push((at(&xs, &xd, &xi), at(&ws, &wd, &wi)));
                    }
                }
                assert_eq!(got, sum(&terms), "{c:?}: y{i:?}");
            }

            let dw = bits(weight_grad(&c, &xv, &gv, &taps).unwrap());
            for (i, &got) in dw.iter().enumerate() {
                let i = unravel(i, &wd);
                let mut terms = vec![];
                for ni in 0..n {
                    for p in 0..count(&out) {
                        let p = unravel(p, &out);
                        let channel = i[0] / og * cg + i[1];
                        let xi = index([ni, channel], (0..p.len()).map(|a| source(&p, &i[2..], a)));
                        let gi = index([ni, i[0]], p.iter().map(|&p| p as isize));
                        terms.push((at(&xs, &xd, &xi), at(&gs, &yd, &gi)));
                    }
                }
                assert_eq!(got, sum(&terms), "{c:?}: dw{i:?}");
            }

            let dx = bits(input_grad(&c, &gv, &wv, &spatial).unwrap());
            for (i, &got) in dx.iter().enumerate() {
                let i = unravel(i, &xd);
                let mut terms = vec![];
                for oi in 0..og {
                    for t in &tap_indices {
                        let scaled =
                            |a: usize| (i[2 + a] + c.padding[a]) as isize - (t[a] * c.dilation[a]) as isize;
                        if (0..t.len()).any(|a| scaled(a) % c.stride[a] as isize != 0) {
                            continue;
                        }
                        let o = i[1] / cg * og + oi;
                        // Floor, so that a position left of the output stays left of it.
                        let gi = index(
                            [i[0], o],
                            (0..t.len()).map(|a| scaled(a).div_euclid(c.stride[a] as isize)),
                        );
                        let wi = index([o, i[1] % cg], t.iter().map(|&t| t as isize));
                        terms.push((at(&gs, &yd, &gi), at(&ws, &wd, &wi)));
                    }
                }
                assert_eq!(got, sum(&terms), "{c:?}: dx{i:?}");
            }
        }
    }

    #[test]
    fn gradients_are_those_of_the_convolution() {
        // In f64 with whole numbers all sums are exact, so <conv(x, w), g> = <x, dx> = <w, dw>
        // holds with ==.
        for (c, [n, cg, og], spatial, taps, out) in geometries() {
            let whole = |n: usize, seed| {
                noise(n, seed).iter().map(|v| f64::from((v * 16.0).round())).collect::<Vec<_>>()
            };
            let count = |d: &[usize]| d.iter().product::<usize>();
            let xd = full([n, cg * c.groups], &spatial);
            let wd = full([og * c.groups, cg], &taps);
            let yd = full([n, og * c.groups], &out);
            let (xs, ws, gs) = (whole(count(&xd), 1), whole(count(&wd), 2), whole(count(&yd), 3));
            let (x, w, g) = (
                HostData::F64(xs.clone().into()),
                HostData::F64(ws.clone().into()),
                HostData::F64(gs.clone().into()),
            );
            let (xl, wl, gl) = (layout(&xd), layout(&wd), layout(&yd));
            let (xv, wv, gv) = (view(&x, &xl), view(&w, &wl), view(&g, &gl));
            let dot = |y: HostData, z: &[f64]| {
                assert_eq!(y.dtype(), DType::F64);
                let HostData::F64(y) = y else { panic!("another type") };
                y.iter().zip(z).map(|(a, b)| a * b).sum::<f64>()
            };
            let want = dot(conv(&c, &xv, &wv, &out, None, &[]).unwrap(), &gs);
            assert_eq!(dot(input_grad(&c, &gv, &wv, &spatial).unwrap(), &xs), want, "{c:?}");
            assert_eq!(dot(weight_grad(&c, &xv, &gv, &taps).unwrap(), &ws), want, "{c:?}");
        }
    }
}
