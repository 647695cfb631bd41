//! Sampling and generation.

use elinvar_core::{DType, ErrorKind};
use elinvar_nn::decoder::{Decoder, generate_captured};
use elinvar_nn::generate::{CausalLm, Limits, Sampler, generate};
use elinvar_nn::models::{Gpt2, Gpt2Config, Llama, LlamaConfig};
use elinvar_nn::{Generator, Layer, Module, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use std::ops::ControlFlow;
use std::sync::Arc;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

/// How often each of n tokens is drawn in 2000 draws.
fn counts(sampler: Sampler, logits: &[f64]) -> Vec<usize> {
    let mut s = sampler;
    let mut n = vec![0; logits.len()];
    for _ in 0..2000 {
        n[s.pick(logits, &[]).unwrap() as usize] += 1;
    }
    n
}

/// Logits, to base 2, of the probabilities 0.5, 0.25, 0.125, 0.125.
const HALVES: [f64; 4] =
    [0.0, -core::f64::consts::LN_2, -2.0 * core::f64::consts::LN_2, -2.0 * core::f64::consts::LN_2];

#[test]
fn draws_follow_the_settings() {
    let new = || Sampler::new(7);
    // Samplers, and the expected counts of 2000 draws; +-90 is four standard deviations of the
    // widest.
    let rows: [(&str, Sampler, [usize; 4]); 9] = [
        ("as they are", new(), [1000, 500, 250, 250]),
        ("temperature 1/2 squares", new().temperature(0.5), [1455, 364, 91, 91]),
        ("top 2", new().top_k(2), [1333, 667, 0, 0]),
        ("top 3 of equal ones takes the smaller token", new().top_k(3), [1143, 571, 286, 0]),
        ("top 9 of 4", new().top_k(9), [1000, 500, 250, 250]),
        ("0.75 is reached by two", new().top_p(0.75), [1333, 667, 0, 0]),
        ("0.76 needs a third", new().top_p(0.76), [1143, 571, 286, 0]),
        ("a little top p leaves one", new().top_p(1e-9), [2000, 0, 0, 0]),
        ("at least 0.3 of the likeliest", new().min_p(0.3), [1333, 667, 0, 0]),
    ];
    for (why, sampler, want) in rows {
        let got = counts(sampler.clone(), &HALVES);
        assert!(
            got.iter().zip(want).all(|(g, w)| g.abs_diff(w) <= 90 && (w > 0 || *g == 0)),
            "{why}: {got:?}"
        );
        assert_eq!(got, counts(sampler, &HALVES), "{why}: the same seed");
    }
    assert_ne!(counts(Sampler::new(8), &HALVES), counts(Sampler::new(9), &HALVES));
}

#[test]
fn the_largest_logit_and_its_ties() {
    let mut s = Sampler::greedy();
    let rows: [(&[f64], &[u32], u32); 6] = [
        (&[1.0, 3.0, 2.0], &[], 1),
        (&[1.0, 3.0, 3.0], &[], 1),           // the smallest of equal ones
        (&[-0.0, 0.0], &[], 0),               // equal too
        (&[f64::NEG_INFINITY, -5.0], &[], 1), // -inf is never
        (&[1.0, 3.0, 2.0], &[1, 1], 2),       // 3 / 2, once, although it was there twice
        (&[-1.0, -1.5, -9.0], &[0, 7], 1),    // -1 * 2; a token that is none does no harm
    ];
    for (logits, before, want) in rows {
        assert_eq!(s.clone().repetition_penalty(2.0).pick(logits, before).unwrap(), want, "{logits:?}");
    }
    let nan = s.pick(&[0.0, f64::NAN], &[]).unwrap_err();
    assert_eq!(nan.message(), "sampler: the logit of token 1 is NaN");
    assert!(s.pick(&[f64::NEG_INFINITY], &[]).is_err() && s.pick(&[], &[]).is_err());
    let bad = [
        Sampler::new(0).temperature(-1.0),
        Sampler::new(0).temperature(f64::NAN),
        Sampler::new(0).top_k(0),
        Sampler::new(0).top_p(0.0),
        Sampler::new(0).min_p(1.5),
        Sampler::new(0).repetition_penalty(0.0),
    ];
    for mut sampler in bad {
        assert_eq!(sampler.pick(&[0.0], &[]).unwrap_err().kind(), ErrorKind::InvalidArgument, "{sampler:?}");
    }
}

fn gpt2() -> Gpt2<B> {
    let mut config = Gpt2Config::new(2, 2, 8, 8, 11).dropout(0.5);
    // Larger than usual, so that the logits of a tiny model differ.
    config.initializer_range = 0.5;
    Gpt2::new(config, &mut Generator::new(3), &D).unwrap()
}

fn llama() -> Llama<B> {
    let mut config = LlamaConfig::new(2, 4, 8, 12, 8, 11);
    (config.num_key_value_heads, config.initializer_range) = (2, 0.5);
    Llama::new(config, &mut Generator::new(3), &D).unwrap()
}

fn limits(n: usize) -> Limits {
    Limits { max_new_tokens: n, stop: vec![] }
}

fn quiet(_: u32) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A plain reference: whole passes over the text without a cache, and the rule for a full context.
fn plainly<M: CausalLm<B>>(model: &M, prompt: &[u32], n: usize, mut sampler: Sampler) -> Vec<u32> {
    model.eval();
    let mut text = prompt.to_vec();
    let mut from = 0;
    for _ in 0..n {
        if text.len() - from > 8 {
            from = text.len() - 4;
        }
        let ids: Vec<i64> = text[from..].iter().map(|&t| i64::from(t)).collect();
        let t = ids.len();
        let y = model.forward(&T::from_vec(ids, [1, t], &D)).select(1, -1);
        text.push(sampler.pick(&y.to_host().unwrap().to_f64_vec(), &text).unwrap());
    }
    text.split_off(prompt.len())
}

#[test]
fn a_cache_changes_no_token_even_when_the_context_is_full() {
    fn both<M: CausalLm<B>>(model: &M) {
        let samplers =
            [Sampler::greedy(), Sampler::new(5).temperature(1.5).top_p(0.95).repetition_penalty(1.2)];
        for sampler in samplers {
            for prompt in [&[1u32, 2, 3][..], &[4], &[1, 2, 3, 4, 5, 6, 7, 8], &[9; 13]] {
                let got = generate(model, prompt, &limits(15), &mut sampler.clone(), &mut quiet).unwrap();
                assert_eq!(got, plainly(model, prompt, 15, sampler.clone()), "{prompt:?}");
            }
        }
    }
    both(&gpt2());
    both(&llama());
}

#[test]
fn generation_stops_and_restores_the_mode() {
    let model = gpt2();
    let run = |limits: &Limits, on: &mut dyn FnMut(u32) -> ControlFlow<()>| {
        generate(&model, &[1, 2], limits, &mut Sampler::new(2), on).unwrap()
    };
    let modes = || model.leaves().modes.iter().map(|m| m.is_training()).collect::<Vec<_>>();
    assert!(modes().iter().all(|m| *m));
    let all = run(&limits(10), &mut quiet);
    assert!(modes().iter().all(|m| *m));
    assert_eq!(all.len(), 10);
    assert!(run(&limits(0), &mut quiet).is_empty());
    // Up to the first stop token, which is not part of the result.
    let stop = all[6];
    let first = all.iter().position(|t| *t == stop).unwrap();
    assert_eq!(run(&Limits { max_new_tokens: 10, stop: vec![99, stop] }, &mut quiet), all[..first]);
    // Stopped by the callback, which saw each token.
    let mut seen = vec![];
    let short = run(&limits(10), &mut |t| {
        seen.push(t);
        if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((&short[..], &seen[..]), (&all[..3], &all[..3]));

    let fail = |prompt: &[u32], mut s: Sampler| {
        generate(&model, prompt, &limits(1), &mut s, &mut quiet).unwrap_err().message().to_owned()
    };
    assert_eq!(
        fail(&[], Sampler::greedy()),
        "generate: the prompt is empty; it should begin with one token at least"
    );
    assert!(fail(&[1, 11], Sampler::greedy()).starts_with("embedding: "));
    assert!(fail(&[1], Sampler::new(1).top_k(0)).starts_with("sampler: top_k is 0"));
    // After errors too.
    assert!(modes().iter().all(|m| *m));
}

/// Another kind of state fits the trait: a model that prefers the successor of the last token, and
/// counts tokens.
#[derive(Debug, Module)]
struct Counting;

impl Layer<B> for Counting {
    fn forward(&self, x: &T) -> T {
        (x + 1i64).one_hot(20).to_dtype(DType::F32)
    }
}

impl CausalLm<B> for Counting {
    type State = usize;
    fn start(&self) -> usize {
        0
    }
    fn context(&self) -> Option<usize> {
        None
    }
    fn device(&self) -> ReferenceDevice {
        D
    }
    fn advance(&self, ids: &T, state: &mut usize) -> T {
        *state += ids.dims()[1];
        self.forward(ids).select(1, -1)
    }
}

#[test]
fn a_model_without_a_limit() {
    let text = generate(&Counting, &[2, 3], &limits(12), &mut Sampler::greedy(), &mut quiet).unwrap();
    assert_eq!(text, (4..16).collect::<Vec<u32>>());
}

fn tokens(ids: &[i64]) -> T {
    T::from_vec(ids.to_vec(), [1, ids.len()], &D)
}

/// A decoder beside a cache that grows: prompts, tokens, a second prompt, tokens that are taken
/// back.
fn decodes<M: CausalLm<B, State = elinvar_nn::layers::KvCache<B>> + Send + Sync + 'static>(model: M) {
    model.eval();
    let model = Arc::new(model);
    let mut decoder = Decoder::new(model.clone(), 12).unwrap();
    for _ in 0..2 {
        let mut cache = model.start();
        for ids in [&[3i64][..], &[1], &[4, 1, 5], &[9], &[2], &[6]] {
            let want = elinvar_tensor::no_grad(|| model.advance(&tokens(ids), &mut cache));
            assert!(decoder.read(&[ids]).unwrap().same_bits(&want), "{ids:?}");
            assert_eq!(decoder.len(), cache.len());
        }
        cache.truncate(5);
        decoder.truncate(5);
        let want = elinvar_tensor::no_grad(|| model.advance(&tokens(&[7]), &mut cache));
        assert!(decoder.read(&[&[7]]).unwrap().same_bits(&want));
        decoder.reset();
        assert!(decoder.is_empty());
    }
}

#[test]
fn a_decoder_has_the_bits_of_the_cache() {
    let g = &mut Generator::new(2);
    decodes(Gpt2::<B>::new(Gpt2Config::new(2, 2, 8, 16, 11), g, &D).unwrap());
    let shared = LlamaConfig { num_key_value_heads: 2, ..LlamaConfig::new(2, 4, 16, 24, 16, 11) };
    decodes(Llama::<B>::new(shared, g, &D).unwrap());
}

#[test]
fn what_a_decoder_refuses() {
    let model =
        Arc::new(Gpt2::<B>::new(Gpt2Config::new(1, 2, 8, 16, 11), &mut Generator::new(2), &D).unwrap());
    let new = |capacity| Decoder::new(model.clone(), capacity).map(drop).unwrap_err().message().to_owned();
    assert_eq!(new(0), "decoder: a capacity of no tokens");
    assert_eq!(new(17), "decoder: a capacity of 17 tokens, and the model has 16 positions");
    let mut decoder = Decoder::new(model.clone(), 4).unwrap();
    let mut fail = |ids: &[&[i64]]| decoder.read(ids).unwrap_err().message().to_owned();
    assert_eq!(fail(&[&[1; 5]]), "decoder: 5 tokens after 0, and the capacity is 4");
    assert_eq!(fail(&[&[1], &[1, 2]]), "decoder: sequences of 1 and 2 tokens; they should be of one length");
    assert!(fail(&[&[]]).contains("sequences of no tokens") && !fail(&[]).is_empty());
    assert!(fail(&[&[11]]).starts_with("embedding: "));
    // In training mode the second token draws random numbers for dropout.
    decoder.read(&[&[1, 2]]).unwrap();
    let e = decoder.read(&[&[3]]).unwrap_err();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("drawing random numbers"), "{e}");
    model.eval();
    assert_eq!(decoder.len(), 2);
    decoder.read(&[&[3]]).unwrap();
    assert!(decoder.read(&[&[11]]).unwrap_err().message().starts_with("embedding: "));
    let two = decoder.read(&[&[1], &[1]]).unwrap_err();
    assert_eq!(two.message(), "decoder: tokens of 2 sequences after those of 1");
    decoder.read(&[&[3]]).unwrap();
    assert!(decoder.read(&[&[1]]).unwrap_err().message().contains("1 tokens after 4"));
}

/// Also beyond the context, where both begin anew.
#[test]
fn captured_text_is_the_same() {
    let config = Gpt2Config::new(2, 2, 8, 16, 11);
    let model = Arc::new(Gpt2::<B>::new(config, &mut Generator::new(2), &D).unwrap());
    for n in [0, 1, 9, 40] {
        let sampler = || Sampler::new(5).temperature(2.0);
        let want = generate(&*model, &[1, 2, 3], &limits(n), &mut sampler(), &mut quiet).unwrap();
        let got = generate_captured(&model, &[1, 2, 3], &limits(n), &mut sampler(), &mut quiet).unwrap();
        assert_eq!((got.len(), got), (n, want));
    }
    assert!(generate_captured(&model, &[], &limits(1), &mut Sampler::greedy(), &mut quiet).is_err());
}
