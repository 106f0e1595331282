//! A trace of allocations, as data: what is made how large, and what goes when.

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a trace has no other")]
pub enum Step {
    /// So many bytes are allocated, to lie in this place.
    Make {
        /// The place.
        place: usize,
        /// The bytes.
        bytes: usize,
    },
    /// What lies in this place is freed.
    Free {
        /// The place.
        place: usize,
    },
}

/// A trace, after which nothing is left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    steps: Vec<Step>,
    places: usize,
}

impl Trace {
    /// That of a transformer's layer: `benches/data/transformer_layer.txt`, which says where it is from.
    ///
    /// # Errors
    /// A file that was changed to something that is no trace.
    pub fn transformer_layer() -> Result<Self, String> {
        Self::parse(include_str!("../data/transformer_layer.txt"))
    }

    /// Reads lines `+ NAME BYTES` and `- NAME`; others are empty or begin with `#`.
    ///
    /// # Errors
    /// The first line that is neither, that makes what is there or frees what isn't; what is left at the end.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut names, mut steps) = (Vec::<Option<&str>>::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = |name: &str| names.iter().position(|other| *other == Some(name));
            match words[..] {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["+", name, bytes] if at(name).is_none() => {
                    let bytes =
                        bytes.parse().map_err(|e| format!("line {number}: {bytes}: {e}"))?;
                    let free = names.iter().position(Option::is_none);
                    let place = free.unwrap_or(names.len());
                    if place == names.len() {
                        names.push(None);
                    }
                    if let Some(taken) = names.get_mut(place) {
                        *taken = Some(name);
                    }
                    steps.push(Step::Make { place, bytes });
                }
                ["-", name] if at(name).is_some() => {
                    let place = at(name).unwrap_or_default();
                    if let Some(taken) = names.get_mut(place) {
                        *taken = None;
                    }
                    steps.push(Step::Free { place });
                }
                _ => return Err(format!("line {number}: {line}")),
            }
        }
        match names.iter().flatten().next() {
            Some(left) => Err(format!("{left} is left")),
            None => Ok(Self { steps, places: names.len() }),
        }
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many places there are.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// A layer of this many tokens, from the shapes.
    fn layer(tokens: usize) -> String {
        let (channels, keys, inner) = (tokens * 4096 * 2, tokens * 1024 * 2, tokens * 14336 * 2);
        let (sums, scale) = (32 * tokens * 4, tokens * 4);
        let mut text = String::new();
        let mut then = |made: &[(&str, usize)], gone: &[&str]| {
            made.iter().for_each(|(name, bytes)| writeln!(text, "+ {name} {bytes}").unwrap());
            gone.iter().for_each(|name| writeln!(text, "- {name}").unwrap());
        };
        let norm = [("normed", channels), ("norm_scale", scale)];
        then(&[("input", channels)], &[]);
        then(&norm, &["norm_scale"]);
        then(&[("qkv", channels + 2 * keys)], &["normed"]);
        then(&[("q_rotated", channels), ("k_rotated", keys)], &[]);
        let all = ["softmax_sums", "k_rotated", "q_rotated", "qkv"];
        then(&[("softmax_sums", sums), ("attended", channels)], &all);
        then(&[("projected", channels)], &["attended"]);
        then(&[("middle", channels)], &["projected", "input"]);
        then(&norm, &["norm_scale"]);
        then(&[("gate", inner), ("up", inner)], &["normed"]);
        then(&[("activated", inner)], &["up", "gate"]);
        then(&[("down", channels)], &["activated"]);
        then(&[("output", channels)], &["down", "middle", "output"]);
        text
    }

    #[test]
    fn the_trace_is_what_the_shapes_give() {
        let text = include_str!("../data/transformer_layer.txt");
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(lines.join("\n") + "\n", layer(256) + &layer(16));
        let trace = Trace::transformer_layer().unwrap();
        assert_eq!((trace.steps().len(), trace.places()), (lines.len(), 6));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, says) in [
            ("+ a 1\n+ a 2", "line 2"),
            ("- a", "line 1"),
            ("+ a", "line 1"),
            ("+ a many", "line 1: many"),
            ("+ a 1", "a is left"),
        ] {
            assert!(Trace::parse(text).unwrap_err().starts_with(says), "{text}");
        }
    }
}
