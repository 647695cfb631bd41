//! The loop of the forward pass over blocks of keys.

use super::{BLOCK, FRAGMENT_ROWS, MmaForwardConfig, exp2};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Compare, FragmentLayout as Order, Place, Role, Scalar};
use elinvar_kernel::lane::{Float, Term, W32};
use elinvar_ops::lane::Lane;

/// The rows of a subgroup's lane: of each sixteen two, row g and row g + 8.
pub(super) struct MmaForwardMainloop<'k> {
    pub(super) k: &'k Builder,
    pub(super) config: MmaForwardConfig,
    /// The subgroup's first row in the workgroup's tile.
    pub(super) own: Val<'k>,
    /// Each row, among all queries.
    each: Vec<[Val<'k>; 2]>,
    /// The lane's first column of eight.
    column: Val<'k>,
    /// The lanes that have the same rows, by one bit of their number each.
    others: [Val<'k>; 2],
}

impl<'k> MmaForwardMainloop<'k> {
    pub(super) fn new(k: &'k Builder, config: MmaForwardConfig, first: Val<'k>) -> Self {
        let lane = k.builtin(Builtin::SubgroupLane);
        let own = k.builtin(Builtin::SubgroupId) * i64::from(config.tiles() * FRAGMENT_ROWS);
        let number = first.scalar();
        let row =
            |r: u32, below: u32| first + (own + lane / 4 + i64::from(r * FRAGMENT_ROWS + below)).to(number);
        MmaForwardMainloop {
            k,
            config,
            own,
            each: (0..config.tiles()).map(|r| [row(r, 0), row(r, 8)]).collect(),
            column: lane % 4 * 2,
            others: [lane ^ 1, lane ^ 2],
        }
    }
    pub(super) fn number(&self, v: f64) -> Val<'k> {
        self.k.float(Scalar::F32, v)
    }
    /// Fragments across a value.
    fn across(&self) -> u32 {
        self.config.width / FRAGMENT_ROWS
    }

    /// The left fragments of a sixteen of queries that are in shared memory.
    pub(super) fn queries(&self, from: Place, r: u32) -> Vec<Val<'k>> {
        let (k, pitch) = (self.k, i64::from(self.config.pitch()));
        let row = (self.own + i64::from(r * FRAGMENT_ROWS)) * pitch;
        let one = |e: u32| {
            let at = row + i64::from(e * FRAGMENT_ROWS);
            k.fragment_load(self.config.fragment(Role::A), Order::RowMajor, from, at, k.u32(pitch as u32))
        };
        (0..self.across()).map(one).collect()
    }

    /// What is carried from block to block: maxima and sums of rows, and fragments of results.
    pub(super) fn begin(&self) -> Vec<Val<'k>> {
        let rows = 2 * self.config.tiles() as usize;
        let none = self.k.fragment_fill(self.config.fragment(Role::C), self.number(0.0));
        let mut all = vec![self.number(f64::NEG_INFINITY); rows];
        all.extend(vec![self.number(0.0); rows]);
        all.extend(vec![none; (self.config.tiles() * self.across()) as usize]);
        all
    }

    /// One block: where its keys and values begin in shared memory; `limit`: its first key, and
    /// behind the last that anybody sees, where not all rows see all of it.
    pub(super) fn turn(
        &self,
        queries: &[Vec<Val<'k>>],
        (staged, bases): ([Place; 2], [Val<'k>; 2]),
        scale: Val<'k>,
        limit: Option<(Val<'k>, Val<'k>)>,
        old: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let (k, config, tiles) = (self.k, self.config, self.config.tiles() as usize);
        let (maxima, old) = old.split_at(2 * tiles);
        let (sums, results) = old.split_at(2 * tiles);
        let pitch = k.u32(config.pitch());
        let right = |side: usize, order: Order, line: u32, column: u32| {
            let at = bases[side] + i64::from(line * config.pitch() + column);
            k.fragment_load(config.fragment(Role::B), order, staged[side], at, pitch)
        };
        let sixteens = BLOCK / FRAGMENT_ROWS;
        let none = k.fragment_fill(config.fragment(Role::C), self.number(0.0));
        let mut scores = vec![vec![none; sixteens as usize]; tiles];
        for e in 0..self.across() {
            for c in 0..sixteens {
                let keys = right(0, Order::ColumnMajor, c * FRAGMENT_ROWS, e * FRAGMENT_ROWS);
                for (scores, queries) in scores.iter_mut().zip(queries) {
                    let sum = &mut scores[c as usize];
                    *sum = k.fragment_mul_add(queries[e as usize], keys, *sum);
                }
            }
        }
        let (mut next_maxima, mut next_sums, mut weights, mut scaled) = (vec![], vec![], vec![], vec![]);
        for r in 0..tiles {
            let rows =
                OnlineSoftmax { m: [maxima[2 * r], maxima[2 * r + 1]], sum: [sums[2 * r], sums[2 * r + 1]] };
            let eighths: Vec<Val> = (scores[r].iter())
                .flat_map(|&s| [0, 1].map(|half| k.fragment_extract(s, half) * scale))
                .collect();
            let eighths = match limit {
                None => eighths,
                Some((first, seen)) => self.seen(&eighths, self.each[r], first, seen),
            };
            let (rows, alpha, exponents) = self.weights(rows, &eighths);
            next_maxima.extend(rows.m);
            next_sums.extend(rows.sum);
            weights.push(
                exponents
                    .chunks(2)
                    .map(|p| k.fragment_compose(config.fragment(Role::A), p))
                    .collect::<Vec<Val>>(),
            );
            let across = self.across() as usize;
            scaled.push(
                results[r * across..][..across]
                    .iter()
                    .map(|&o| {
                        let splits = [0, 1].map(|half| k.fragment_extract(o, half) * alpha);
                        k.fragment_compose(config.fragment(Role::C), &splits)
                    })
                    .collect::<Vec<Val>>(),
            );
        }
        for c in 0..sixteens {
            for e in 0..self.across() {
                let values = right(1, Order::RowMajor, c * FRAGMENT_ROWS, e * FRAGMENT_ROWS);
                for (results, weights) in scaled.iter_mut().zip(&weights) {
                    let sum = &mut results[e as usize];
                    *sum = k.fragment_mul_add(weights[c as usize], values, *sum);
                }
            }
        }
        [next_maxima, next_sums, scaled.concat()].concat()
    }

    /// Scores by eights of keys from `first` on, -inf for those that a row does not see.
    pub(super) fn seen(
        &self,
        eighths: &[Val<'k>],
        rows: [Val<'k>; 2],
        first: Val<'k>,
        seen: Val<'k>,
    ) -> Vec<Val<'k>> {
        let k = self.k;
        let never = self.number(f64::NEG_INFINITY).splat(4);
        // How many keys of the block a row sees.
        let counts = rows.map(|row| {
            let end = if self.config.causal { seen.min(row + 1) } else { seen };
            end - first
        });
        let one = |(i, &scores): (usize, &Val<'k>)| {
            let at = |n: i64| (self.column + (8 * i as i64 + n)).to(first.scalar());
            let [a, b] = [at(0), at(1)];
            let there = [a.lt(counts[0]), b.lt(counts[0]), a.lt(counts[1]), b.lt(counts[1])];
            k.compose(&there).select(scores, never)
        };
        eighths.iter().enumerate().map(one).collect()
    }

    /// The maxima and sums of two rows with a block's scores, what makes the results before fit to
    /// them, and the block's weights.
    fn weights(
        &self,
        old: OnlineSoftmax<'k>,
        scores: &[Val<'k>],
    ) -> (OnlineSoftmax<'k>, Val<'k>, Vec<Val<'k>>) {
        let k = self.k;
        let larger = |a: Val<'k>, b: Val<'k>| a.lt(b).select(b, a);
        let m = [0u8, 2].map(|first| {
            let mut all = scores.iter().flat_map(|s| [s.extract(first), s.extract(first + 1)]);
            let own = all.next().map_or(self.number(f64::NEG_INFINITY), |one| all.fold(one, larger));
            self.others.iter().fold(own, |m, &other| larger(m, k.shuffle(m, other)))
        });
        let m = [larger(old.m[0], m[0]), larger(old.m[1], m[1])];
        // Where nothing was seen so far, nothing is taken off, and weights are 2^-inf.
        let never = self.number(f64::NEG_INFINITY);
        let shift = m.map(|m| m.eq(never).select(self.number(0.0), m));
        let alpha = [0, 1].map(|i| exp2(old.m[i] - shift[i]));
        let [shifts, alphas] = [shift, alpha].map(|[a, b]| k.compose(&[a, a, b, b]));
        let weights: Vec<Val> = scores.iter().map(|&s| exp2(s - shifts)).collect();
        let mut sum = [old.sum[0] * alpha[0], old.sum[1] * alpha[1]];
        for w in &weights {
            for (i, sum) in sum.iter_mut().enumerate() {
                let first = 2 * i as u8;
                *sum = *sum + w.extract(first) + w.extract(first + 1);
            }
        }
        (OnlineSoftmax { m, sum }, alphas, weights)
    }

    /// Stores what a part found of those rows that there are: results as they are; maxima, and
    /// behind those of all parts sums.
    pub(super) fn leave(
        &self,
        state: &[Val<'k>],
        exists: Val<'k>,
        [split, splits, head, heads, l]: [Val<'k>; 5],
        [results, statistics]: [Place; 2],
    ) {
        let (k, config) = (self.k, self.config);
        let (maxima, state) = state.split_at(2);
        let (sums, fragments) = state.split_at(2);
        let total =
            [0, 1].map(|i| self.others.iter().fold(sums[i], |sum, &other| sum + k.shuffle(sum, other)));
        let args: Vec<Val> =
            fragments.iter().flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half))).collect();
        for i in 0..2 {
            let row = self.each[0][i];
            k.if_(row.lt(l) & exists, || {
                let line = (split * heads + head) * l + row;
                for (eighth, four) in args.iter().enumerate() {
                    let first = 2 * i as u8;
                    let pair = k.compose(&[four.extract(first), four.extract(first + 1)]);
                    let column = self.column + 8 * eighth as i64;
                    k.store(results, line * i64::from(config.width) + column.to(line.scalar()), pair);
                }
                k.if_(self.column.eq(k.u32(0)), || {
                    k.store(statistics, line, maxima[i]);
                    k.store(statistics, splits * heads * l + line, total[i]);
                });
            });
        }
    }

    /// Stores results and statistics of those rows that there are.
    pub(super) fn end(
        &self,
        state: &[Val<'k>],
        exists: Val<'k>,
        [head, l]: [Val<'k>; 2],
        [y, lse]: [Place; 2],
    ) {
        let (k, config, tiles) = (self.k, self.config, self.config.tiles() as usize);
        let (maxima, state) = state.split_at(2 * tiles);
        let (sums, results) = state.split_at(2 * tiles);
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let across = self.across() as usize;
        for r in 0..tiles {
            let total = [0, 1]
                .map(|i| self.others.iter().fold(sums[2 * r + i], |sum, &other| sum + k.shuffle(sum, other)));
            let inverse = total.map(|t| one / t.eq(zero).select(one, t));
            let splits: Vec<Val> = (results[r * across..][..across].iter())
                .flat_map(|&o| [0, 1].map(|half| k.fragment_extract(o, half)))
                .collect();
            for i in 0..2 {
                let row = self.each[r][i];
                let there = row.compare(Compare::Lt, l) & exists;
                k.if_(there, || {
                    let line = (head * l + row) * i64::from(config.width);
                    for (eighth, split) in splits.iter().enumerate() {
                        let first = 2 * i as u8;
                        let pair = [split.extract(first), split.extract(first + 1)];
                        let pair = k.compose(&pair) * inverse[i];
                        let column = self.column + 8 * eighth as i64;
                        k.store(y, line + column.to(line.scalar()), pair);
                    }
                    k.if_(self.column.eq(k.u32(0)), || {
                        let log = Float::<W32>::new(Term::Value(total[i])).log().0.value(k);
                        let m = maxima[2 * r + i] * self.number(std::f64::consts::LN_2);
                        k.store(lse, head * l + row, m + log);
                    });
                });
            }
        }
    }
}

/// The running maximum, and a lane's part of the sum, of two rows.
#[derive(Clone, Copy)]
struct OnlineSoftmax<'k> {
    m: [Val<'k>; 2],
    sum: [Val<'k>; 2],
}
