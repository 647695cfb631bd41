//! `Rprop`: steps of each element's own size, in the direction of the gradient's sign.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Resilient propagation.
///
/// A size per element, at first `lr`, is multiplied by `etas[1]` if the gradient has the sign that
/// it had in the last step, by `etas[0]` if it has the other one, and is then between `step_sizes`.
/// The parameter goes down by it in the direction of the gradient's sign, but stays after a change
/// of signs, when the next step takes the gradient as 0. For whole batches: signs of noise say
/// little.
pub type Rprop<B> = Descent<B, RpropRule>;

/// The settings of [`Rprop`].
#[derive(Clone, Copy, Debug)]
pub struct RpropRule {
    etas: [f64; 2],
    step_sizes: [f64; 2],
}

impl Default for RpropRule {
    fn default() -> Self {
        RpropRule { etas: [0.5, 1.2], step_sizes: [1e-6, 50.0] }
    }
}

setters! { RpropRule:
    /// The factors of a size after another sign and after the same one (default 0.5 and 1.2).
    etas: [f64; 2];
    /// The least and the largest size (default 1e-6 and 50).
    step_sizes: [f64; 2];
}

impl Rule for RpropRule {
    const NAME: &'static str = "rprop";
    const COUNTS: bool = false;

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("etas", Setting::Numbers(&mut self.etas, Range::NotNegative)),
            ("step_sizes", Setting::Numbers(&mut self.step_sizes, Range::NotNegative)),
        ]
    }
    fn conflict(&self) -> Option<String> {
        let ([down, up], [least, most]) = (self.etas, self.step_sizes);
        let fits = down > 0.0 && down < 1.0 && up > 1.0 && least <= most;
        (!fits).then(|| {
            format!(
                "etas are {down} and {up}, sizes {least} and {most}; the first eta should be in 0..1, the second above 1, \
                 and the sizes in order"
            )
        })
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("prev", 0.0), ("step_size", 0.0)]
    }
    /// The size of the first step; 0 in all others.
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        vec![if at.fresh { at.lr } else { 0.0 }]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let [prev, size] = states else { unreachable!("a gradient and a size") };
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let [down, up] = self.etas.map(L::lit);
        let [least, most] = self.step_sizes.map(L::lit);
        let product = g * *prev;
        let turned = product.lt(zero);
        let factor = L::select(zero.lt(product), up, L::select(turned, down, one));
        let before = L::select(zero.lt(s[0]), s[0], *size);
        *size = (before * factor).max(least).min(most);
        let g = L::select(turned, zero, g);
        *prev = g;
        // The sign of 0 is 0, and that of NaN NaN.
        let sign = L::select(zero.lt(g), one, L::select(g.lt(zero), -one, g));
        x - sign * *size
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<3, 3>()
    }
}
