//! Plans of transforms: levels and their tables in the type of computation, kept for the next
//! transform of the same length.

use elinvar_core::Element;
use elinvar_ops::catalogue::fourier::plan::{self, Plan};
use elinvar_ops::catalogue::fourier::tables::Table;
use elinvar_simd::vector::SimdElement;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One level of a transform.
pub(super) struct Level<T> {
    /// How many it joins.
    pub(super) radix: usize,
    /// The product of the levels before.
    pub(super) l: usize,
    /// `TwiddleCos` and the parts of `TwiddleSin`, [radix, l].
    pub(super) cos: Vec<T>,
    pub(super) sin: [Vec<T>; 2],
    /// `Planes`, column by column; empty for a level of two.
    pub(super) matrix: Vec<T>,
}

/// A forward transform of complex numbers whose length has levels.
pub(super) struct Levels<T> {
    pub(super) n: usize,
    pub(super) all: Vec<Level<T>>,
}

/// Factors of numbers, in the order of the numbers: cosines, and sines for either part.
pub(super) struct Turns<T> {
    pub(super) cos: Vec<T>,
    pub(super) sin: [Vec<T>; 2],
}

/// A convolution, for a length without levels.
pub(super) struct Convolution<T> {
    pub(super) chirp: Turns<T>,
    pub(super) spectrum: Turns<T>,
}

/// A forward transform of complex numbers of any length.
pub(super) struct Transform<T> {
    /// The length.
    pub(super) n: usize,
    /// That of the numbers, or of the convolution.
    pub(super) levels: Levels<T>,
    pub(super) convolution: Option<Convolution<T>>,
}

/// What joins or splits the even and the odd elements of real numbers: `HalfSin` and `HalfCos`.
pub(super) type Half<T> = Turns<T>;

/// Rounded.
fn rounded<T: Element>(table: Table) -> Vec<T> {
    table.numbers().iter().map(|&x| T::from_f64(x)).collect()
}

/// Two tables of which the second has the parts side by side.
fn turns<T: Element>(cos: Table, sin: Table) -> Turns<T> {
    let sin = rounded::<T>(sin);
    let part = |c: usize| sin.iter().skip(c).step_by(2).copied().collect();
    Turns { cos: rounded(cos), sin: [part(0), part(1)] }
}

impl<T: SimdElement> Level<T> {
    fn new(radix: usize, l: usize) -> Self {
        let sin: Vec<T> = rounded(Table::TwiddleSin { radix, l });
        let matrix: Vec<T> = if radix == 2 { vec![] } else { rounded(Table::Planes { n: radix }) };
        let side = if radix == 2 { 0 } else { 2 * radix };
        let columns = (0..side).flat_map(|c| (0..side).map(move |r| (r, c)));
        Level {
            radix,
            l,
            cos: rounded(Table::TwiddleCos { radix, l }),
            sin: [sin[..radix * l].to_vec(), sin[radix * l..].to_vec()],
            matrix: columns.map(|(r, c)| matrix[r * side + c]).collect(),
        }
    }
}

impl<T: SimdElement> Levels<T> {
    fn new(n: usize, radices: &[usize]) -> Self {
        let mut l = 1;
        let level = |&radix: &usize| {
            let level = Level::new(radix, l);
            l *= radix;
            level
        };
        Levels { n, all: radices.iter().map(level).collect() }
    }
}

impl<T: SimdElement> Transform<T> {
    fn new(n: usize) -> Self {
        match plan::plan(n) {
            Plan::Levels(all) => Transform { n, levels: Levels::new(n, &all), convolution: None },
            Plan::Bluestein(m) => {
                let Plan::Levels(all) = plan::plan(m) else {
                    unreachable!("cpu: the length of a convolution has levels")
                };
                let convolution = Convolution {
                    chirp: turns(Table::ChirpCos { n }, Table::ChirpSin { n }),
                    spectrum: turns(Table::SpectrumRe { n, m }, Table::SpectrumCross { n, m }),
                };
                Transform { n, levels: Levels::new(m, &all), convolution: Some(convolution) }
            }
        }
    }
}

/// All plans of a type together are of at most so many elements; beyond it they are made again.
const MOST_KEPT: usize = 1 << 21;

/// Plans that are kept, and their elements.
pub(super) struct Kept<T> {
    transforms: HashMap<usize, Arc<Transform<T>>>,
    halves: HashMap<(usize, bool), Arc<Half<T>>>,
    elements: usize,
}

/// f32 and f64: types whose plans are kept.
pub(super) trait Planned: SimdElement {
    /// Where.
    fn kept() -> &'static Mutex<Option<Kept<Self>>>;
    /// The transform of `n` complex numbers.
    fn transform(n: usize) -> Arc<Transform<Self>> {
        find(n, |kept: &mut Kept<Self>| &mut kept.transforms, n, || Transform::new(n))
    }
    /// What joins (or, if `inverse`, splits) the halves of `n` real numbers.
    fn half(n: usize, inverse: bool) -> Arc<Half<Self>> {
        let make = || turns(Table::HalfSin { n }, Table::HalfCos { n, inverse });
        find(n, |kept: &mut Kept<Self>| &mut kept.halves, (n, inverse), make)
    }
}

fn find<T: Planned, K: std::hash::Hash + Eq, P>(
    n: usize,
    of: impl Fn(&mut Kept<T>) -> &mut HashMap<K, Arc<P>>,
    key: K,
    make: impl FnOnce() -> P,
) -> Arc<P> {
    let lock = || T::kept().lock().unwrap_or_else(PoisonError::into_inner);
    let empty = || Kept { transforms: HashMap::new(), halves: HashMap::new(), elements: 0 };
    if let Some(plan) = of(lock().get_or_insert_with(empty)).get(&key) {
        return plan.clone();
    }
    let plan = Arc::new(make());
    let mut kept = lock();
    let kept = kept.get_or_insert_with(empty);
    if kept.elements + n > MOST_KEPT {
        *kept = empty();
    }
    if n <= MOST_KEPT {
        kept.elements += n;
        of(kept).insert(key, plan.clone());
    }
    plan
}

macro_rules! planned {
    ($($t:ty),*) => {$(
        impl Planned for $t {
            fn kept() -> &'static Mutex<Option<Kept<$t>>> {
                static KEPT: Mutex<Option<Kept<$t>>> = Mutex::new(None);
                &KEPT
            }
        }
    )*};
}
planned!(f32, f64);
