//! Autotuning of convolution and its gradients: what has one best candidate, and how candidates are
//! written to the file.

use super::Tuner;
use elinvar_core::{Layout, Precision, Result};
use elinvar_gpu_kernels::conv::{ConvCandidate, ConvPass, ConvProblem};
use elinvar_gpu_kernels::gemm::plan::MIN_PRODUCTS_LOG2;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// What a line on a convolution begins with.
const CONV_PREFIX: &str = "conv ";
/// Sizes up to this are told apart; larger ones up to the next power of two.
const MAX_EXACT_SIZE: usize = 16;

/// The ways that were found, by the word of a case.
pub(super) type TunedConvs = BTreeMap<String, ConvCandidate>;

/// What a file says of convolutions. A line that is not understood is as good as none.
pub(super) fn read(text: &str) -> TunedConvs {
    let line = |l: &str| {
        let (word, name) = l.strip_prefix(CONV_PREFIX)?.split_once(": ")?;
        let candidate = ConvCandidate::all().find(|candidate| candidate.to_string() == name)?;
        Some((word.to_string(), candidate))
    };
    text.lines().filter_map(line).collect()
}

/// Lines for [`read`].
pub(super) fn write(known: &TunedConvs, text: &mut String) {
    for (word, candidate) in known {
        let _ = writeln!(text, "{CONV_PREFIX}{word}: {candidate}");
    }
}

/// A word for all convolutions that have one best way: `forward f32 exact, 8 16 64 64 by 32 16 3 3
/// to 64 64, stride 1 1 padding 1 1 dilation 1 1 groups 1, unit stride 3 3`.
fn word(a: &ConvProblem<'_, '_>) -> String {
    let of = match a.of {
        ConvPass::Forward => "forward",
        ConvPass::GradInput => "input gradient",
        ConvPass::GradWeight => "weight gradient",
    };
    let precision = match a.c.precision {
        Precision::Exact => "exact",
        Precision::Fast => "fast",
    };
    let size = |n: usize| if n <= MAX_EXACT_SIZE { n } else { n.next_power_of_two() };
    let list =
        |all: &mut dyn Iterator<Item = usize>| all.map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let dims = |dims: &[usize]| list(&mut dims.iter().map(|&n| size(n)));
    let numbers = |all: &[usize]| list(&mut all.iter().copied());
    // Along which axis neighbours are contiguous.
    let unit_axis =
        |l: &Layout| l.strides().iter().rposition(|s| *s == 1).map_or("none".into(), |a| a.to_string());
    let [x, y] = a.operands;
    let c = a.c;
    format!(
        "{of} {} {precision}, {} by {} to {}, stride {} padding {} dilation {} groups {}, unit stride {} {}",
        a.dtype,
        dims(x.shape()),
        dims(y.shape()),
        dims(a.sizes),
        numbers(&c.stride),
        numbers(&c.padding),
        numbers(&c.dilation),
        c.groups,
        unit_axis(x),
        unit_axis(y),
    )
}

impl Tuner {
    /// The way for a convolution, or for a gradient of one. All of `conv`, of which
    /// `ConvCandidate::Default` is the first, are run to find out; `time` says nothing of a way in
    /// which this cannot be done.
    ///
    /// # Errors
    /// Those of `time`.
    pub(crate) fn conv_candidate(
        &self,
        a: &ConvProblem<'_, '_>,
        candidates: &dyn Fn() -> Vec<ConvCandidate>,
        time: &dyn Fn(ConvCandidate) -> Result<Option<Duration>>,
    ) -> Result<ConvCandidate> {
        // Who does not tune should not pay for it: most have no file.
        if !self.enabled && self.lock_conv().is_empty() || a.products() < 1 << MIN_PRODUCTS_LOG2 {
            return Ok(ConvCandidate::Default);
        }
        let word = word(a);
        if let Some(&candidate) = self.lock_conv().get(&word) {
            return Ok(candidate);
        }
        if !self.enabled {
            return Ok(ConvCandidate::Default);
        }
        let candidate =
            self.fastest(&word, &candidates(), &|candidate: ConvCandidate| candidate.to_string(), time)?;
        self.lock_conv().insert(word, candidate);
        self.save();
        Ok(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{DType, Shape};
    use elinvar_gpu_kernels::ComputeUnits;
    use elinvar_gpu_kernels::conv::{ConvPath, WorkgroupLimits, candidates};
    use elinvar_ops::backend::Conv;
    use std::cell::RefCell;
    use std::path::PathBuf;

    const LIMITS: WorkgroupLimits = WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits(132),
    };

    fn conv() -> Conv {
        let one = || vec![1, 1];
        Conv { stride: one(), padding: one(), dilation: one(), groups: 1, precision: Precision::Exact }
    }
    fn layout(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }
    fn tuner(enabled: bool, file: &PathBuf) -> Tuner {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        Tuner::with_file(enabled, Some(file.clone()), &text)
    }

    #[test]
    fn the_fastest_way_is_kept() {
        let dir = std::env::temp_dir().join(format!("elinvar-windows-{}", std::process::id()));
        let file = dir.join("tiles");
        let (c, x, w) = (conv(), layout(&[2, 64, 20, 20]), layout(&[64, 64, 3, 3]));
        let g = layout(&[2, 64, 20, 20]);
        let asked = [
            ConvProblem {
                of: ConvPass::Forward,
                ..ConvProblem::gradient(ConvPass::GradInput, &c, DType::F32, [&x, &w], &[20, 20])
            },
            ConvProblem::gradient(ConvPass::GradInput, &c, DType::F32, [&g, &w], &[20, 20]),
            ConvProblem::gradient(ConvPass::GradWeight, &c, DType::F32, [&x, &g], &[3, 3]),
        ];
        let never =
            |candidate: ConvCandidate| -> Result<Option<Duration>> { panic!("{candidate:?} is tried") };
        let all = |a: &ConvProblem<'_, '_>| candidates(a, ConvPath::Auto(LIMITS));
        // Without trying, and of what is over before it is begun.
        let small = layout(&[1, 4, 4, 4]);
        let tiny = ConvProblem::gradient(ConvPass::GradWeight, &c, DType::F32, [&small, &small], &[3, 3]);
        assert_eq!(
            tuner(false, &file).conv_candidate(&asked[0], &|| all(&asked[0]), &never).unwrap(),
            ConvCandidate::Default
        );
        assert_eq!(
            tuner(true, &file).conv_candidate(&tiny, &|| all(&tiny), &never).unwrap(),
            ConvCandidate::Default
        );
        let t = tuner(true, &file);
        let mut lines = Vec::new();
        for (i, a) in asked.iter().enumerate() {
            let there = all(a);
            assert!(there[0] == ConvCandidate::Default && there.len() > 6, "{there:?}");
            // Each once, and each of the words that the file has for them.
            assert!(
                there.iter().all(|candidate| there.iter().filter(|w| *w == candidate).count() == 1),
                "{there:?}"
            );
            assert!(there.iter().all(|candidate| ConvCandidate::all().any(|w| w == *candidate)), "{there:?}");
            let (best, gone) = (there[i + 2], there[i + 1]);
            let tried = RefCell::new(Vec::new());
            let time = |candidate: ConvCandidate| {
                tried.borrow_mut().push(candidate);
                let took = |ms| Ok(Some(Duration::from_millis(ms)));
                if candidate == best {
                    took(3)
                } else if candidate == gone {
                    Ok(None)
                } else {
                    took(7)
                }
            };
            assert_eq!(t.conv_candidate(a, &|| all(a), &time).unwrap(), best);
            // All but what cannot be done, and that once.
            assert_eq!(tried.borrow().len(), (there.len() - 1) * (crate::tune::RUNS_PER_CANDIDATE + 1) + 1);
            assert_eq!(t.conv_candidate(a, &|| all(a), &never).unwrap(), best);
            // Another program finds it in the file.
            assert_eq!(tuner(false, &file).conv_candidate(a, &|| all(a), &never).unwrap(), best);
            lines.push(best.to_string());
        }
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(lines.iter().all(|name| text.contains(&format!(": {name}\n"))), "{text}");
        let first = "conv forward f32 exact, 2 64 32 32 by 64 64 3 3 to 32 32, stride 1 1 padding 1 1 dilation 1 1 \
                     groups 1, unit stride 3 3: ";
        assert!(text.contains(first), "{text}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn each_way_has_a_name_of_its_own() {
        for candidate in ConvCandidate::all() {
            let name = candidate.to_string();
            assert_eq!(ConvCandidate::all().filter(|w| w.to_string() == name).count(), 1, "{name}");
            let known = TunedConvs::from([("word".to_string(), candidate)]);
            let mut text = String::new();
            write(&known, &mut text);
            assert_eq!(read(&text), known, "{text}");
        }
    }
}
