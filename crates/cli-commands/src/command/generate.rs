//! `elinvar generate`

use crate::args::{Generate, Sampling};
use elinvar::nn::data::{Tokenize, Tokenizer};
use elinvar::nn::decoder::generate_captured;
use elinvar::nn::generate::{CausalLm, Limits, Sampler, generate};
use elinvar::nn::layers::KvCache;
use elinvar::nn::models::{Gpt2, Llama, model_type};
use elinvar::{Any, Device, Error, Result};
use elinvar_cli_support::Verdict;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Loads the model and writes on from the prompt.
pub fn run(args: &Generate, out: &mut dyn Write) -> Result<Verdict> {
    let device = Device::parse(&args.device)?;
    let sampler = sampler(&args.sampling);
    let kind = model_type(&args.model)?;
    let tokenizer = || Tokenizer::open(args.model.join("tokenizer.json"));
    let n = args.tokens as usize;
    match kind.as_str() {
        "gpt2" => {
            let model: Gpt2<Any> = Gpt2::from_pretrained(&args.model, &device)?;
            write_with(model, args.capture, &tokenizer()?, &args.prompt, n, sampler, out)?;
        }
        "llama" => {
            let model: Llama<Any> = Llama::from_pretrained(&args.model, &device)?;
            write_with(model, args.capture, &tokenizer()?, &args.prompt, n, sampler, out)?;
        }
        other => {
            return Err(Error::unsupported(format!(
                "{}: a model of type \"{other}\" does not write; gpt2 and llama do",
                args.model.display()
            )));
        }
    }
    writeln!(out)?;
    Ok(Verdict::Good)
}

/// What the command line says of sampling.
pub fn sampler(args: &Sampling) -> Sampler {
    let mut sampler = Sampler::new(args.sample_seed).temperature(args.temperature);
    if let Some(k) = args.top_k {
        sampler = sampler.top_k(k as usize);
    }
    if let Some(p) = args.top_p {
        sampler = sampler.top_p(p);
    }
    sampler
}

/// [`write_on`], by a step that is captured, if that is wanted.
fn write_with<M: CausalLm<Any, State = KvCache<Any>> + Send + Sync + 'static>(
    model: M,
    is_captured: bool,
    tokenizer: &Tokenizer,
    prompt: &str,
    tokens: usize,
    mut sampler: Sampler,
    out: &mut dyn Write,
) -> Result<()> {
    if !is_captured {
        return write_on(&model, tokenizer, prompt, tokens, sampler, out);
    }
    let model = Arc::new(model);
    write_by(tokenizer, prompt, tokens, out, &mut |ids, limits, tell| {
        generate_captured(&model, ids, limits, &mut sampler, tell).map(drop)
    })
}

/// Writes the prompt and what the model adds to it, as it comes.
pub fn write_on<M: CausalLm<Any>>(
    model: &M,
    tokenizer: &Tokenizer,
    prompt: &str,
    tokens: usize,
    mut sampler: Sampler,
    out: &mut dyn Write,
) -> Result<()> {
    write_by(tokenizer, prompt, tokens, out, &mut |ids, limits, tell| {
        generate(model, ids, limits, &mut sampler, tell).map(drop)
    })
}

/// Tells each token that follows a prompt.
type Generation<'a> = dyn FnMut(&[u32], &Limits, &mut dyn FnMut(u32) -> ControlFlow<()>) -> Result<()> + 'a;

fn write_by(
    tokenizer: &Tokenizer,
    prompt: &str,
    tokens: usize,
    out: &mut dyn Write,
    generation: &mut Generation<'_>,
) -> Result<()> {
    let ids = tokenizer.encode(prompt)?;
    if ids.is_empty() {
        return Err(Error::argument("generate: the prompt has no tokens; begin with a word"));
    }
    let stop = ["<|endoftext|>", "</s>", "<|end_of_text|>"].iter().filter_map(|t| tokenizer.id(t)).collect();
    let limits = Limits { max_new_tokens: tokens, stop };
    out.write_all(prompt.as_bytes())?;
    let mut told = Told { all: ids.clone(), written: tokenizer.decode(&ids)?.len() };
    let mut failed = None;
    let mut tell = |token| match told.token(token, tokenizer, out) {
        Ok(()) => ControlFlow::Continue(()),
        Err(e) => {
            failed = Some(e);
            ControlFlow::Break(())
        }
    };
    generation(&ids, &limits, &mut tell)?;
    failed.map_or(Ok(()), Err)
}

/// The text so far. A character may be made of several tokens, so it is written when it is whole.
struct Told {
    all: Vec<u32>,
    /// Bytes that are written.
    written: usize,
}

impl Told {
    fn token(&mut self, token: u32, tokenizer: &Tokenizer, out: &mut dyn Write) -> Result<()> {
        self.all.push(token);
        let text = tokenizer.decode(&self.all)?;
        // What is not yet a character is decoded as this one.
        let whole = text.trim_end_matches('\u{fffd}').len();
        if let Some(new) = text.get(self.written..whole).filter(|new| !new.is_empty()) {
            out.write_all(new.as_bytes())?;
            out.flush()?;
            self.written = whole;
        }
        Ok(())
    }
}
