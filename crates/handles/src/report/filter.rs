//! Which warnings are heard: rules by kind, status and call, and the environment variable that sets the default.

use super::{CudaWarning, WarningKind, seen::Key};
use cuhold_driver_sys::{CUresult, Call, mutant};
use std::{env, ffi::OsStr, fmt, str::FromStr};

/// What is done with a warning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Action {
    /// It is counted, no more.
    Ignore,
    /// It is delivered once for each call, status and object (by id, since raw values are reused); then it is counted
    /// as folded.
    Once,
    /// It is delivered each time.
    #[default]
    Always,
    /// It is handed to the escalation hook instead of the sink.
    Escalate,
}

impl Action {
    /// The environment variable that [`from_env`](Self::from_env) reads.
    pub const VARIABLE: &str = "CUHOLD_WARNINGS";

    /// What the environment asks for: `None` where `CUHOLD_WARNINGS` is unset or empty.
    ///
    /// Nothing but `Driver::load()` asks this: a driver made otherwise doesn't look at the environment.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`UnknownAction`] where the variable holds another word than `ignore`, `once`, `always` and `escalate`.
    pub fn from_env() -> Result<Option<Self>, UnknownAction> {
        Self::from_variable(env::var_os(Self::VARIABLE).as_deref())
    }

    fn from_variable(value: Option<&OsStr>) -> Result<Option<Self>, UnknownAction> {
        match value.map(OsStr::to_string_lossy) {
            None => Ok(None),
            Some(word) if word.is_empty() => Ok(None),
            Some(word) => word.parse().map(Some),
        }
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(word: &str) -> Result<Self, UnknownAction> {
        match word {
            "ignore" => Ok(Self::Ignore),
            "once" => Ok(Self::Once),
            "always" => Ok(Self::Always),
            "escalate" => Ok(Self::Escalate),
            other => Err(UnknownAction { word: other.to_owned() }),
        }
    }
}

/// `CUHOLD_WARNINGS` holds a word that names no [`Action`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownAction {
    /// The word.
    pub word: String,
}

impl fmt::Display for UnknownAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variable = Action::VARIABLE;
        write!(f, "{variable} is {:?}, not one of ignore, once, always, escalate", self.word)
    }
}

impl std::error::Error for UnknownAction {}

/// What a filter does with some warnings. A rule without restrictions matches all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a rule does nothing until it stands in a filter"]
pub struct Rule {
    action: Action,
    kind: Option<WarningKind>,
    status: Option<CUresult>,
    call: Option<Call>,
}

impl Rule {
    /// A rule that matches every warning.
    ///
    /// Calls nothing.
    pub const fn new(action: Action) -> Self {
        Self { action, kind: None, status: None, call: None }
    }

    /// Only warnings of this kind.
    ///
    /// Calls nothing.
    pub const fn kind(self, kind: WarningKind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Only warnings with this status.
    ///
    /// Calls nothing.
    pub const fn status(self, status: CUresult) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Only warnings of this call, in whichever of its forms.
    ///
    /// Calls nothing.
    pub const fn call(self, call: Call) -> Self {
        Self { call: Some(call), ..self }
    }

    fn matches(&self, warning: &CudaWarning) -> bool {
        let is_call =
            |wanted: Call| warning.call().is_some_and(|call| call.name() == wanted.name());
        self.kind.is_none_or(|kind| kind == warning.kind())
            && self.status.is_none_or(|status| Some(status) == warning.status())
            && self.call.is_none_or(is_call)
    }
}

/// Rules in order: the first that matches a warning decides, else the default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "a filter does nothing until it is set"]
pub struct Filter {
    rules: Vec<Rule>,
    default: Action,
}

impl Filter {
    /// A filter without rules.
    ///
    /// Calls nothing.
    pub const fn new(default: Action) -> Self {
        Self { rules: Vec::new(), default }
    }

    /// The same with one more rule, looked at after those that are there.
    ///
    /// Calls nothing.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// What this filter does with `warning`.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn action(&self, warning: &CudaWarning) -> Action {
        let rule = self.rules.iter().find(|rule| rule.matches(warning));
        rule.map_or(self.default, |rule| rule.action)
    }

    /// Whether it needs the table of what was delivered once.
    pub(super) fn has_once(&self) -> bool {
        self.default == Action::Once || self.rules.iter().any(|rule| rule.action == Action::Once)
    }
}

/// What `Once` knows a warning by: call, status and the object's id. Where no call failed, the kind takes their place.
pub(super) fn once_key(warning: &CudaWarning) -> Key {
    let what = match (warning.failure(), warning.kind()) {
        (Some(failure), _) => 1 << 63 | (failure.call as u64) << 32 | u64::from(failure.status.0),
        (None, kind) => match warning.compiler_failure() {
            Some(failure) => 1 << 63 | failure.word(),
            None => 1 << 62 | kind as u64,
        },
    };
    let object = warning.object();
    [what, if mutant::is_out("once-id") { object.raw } else { object.id }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fate, Object, ObjectKind};
    use cuhold_driver_sys::Failure;

    fn warning(call: Call, status: CUresult) -> CudaWarning {
        let object = Object { kind: ObjectKind::Stream, raw: 1, id: 1 };
        CudaWarning::failed(Failure { call, status }, object, Fate::Leaked)
    }

    const DESTROY: Call = Call::cuStreamDestroy_v2;
    const HANDLE: CUresult = CUresult::INVALID_HANDLE;

    #[test]
    fn without_rules_the_default_decides() {
        let seen = warning(DESTROY, HANDLE);
        assert_eq!(Filter::default().action(&seen), Action::Always);
        assert_eq!(Filter::new(Action::Ignore).action(&seen), Action::Ignore);
    }

    #[test]
    fn a_rule_matches_by_each_of_kind_status_and_call() {
        let note = CudaWarning::note(Object::nameless(ObjectKind::Reclaimer), "x");
        let rule = Rule::new(Action::Ignore);
        assert!(rule.matches(&note) && rule.matches(&warning(DESTROY, HANDLE)));
        for (rule, hit, miss) in [
            (rule.kind(WarningKind::Failed), warning(DESTROY, HANDLE), note),
            (rule.status(HANDLE), warning(DESTROY, HANDLE), warning(DESTROY, CUresult::UNKNOWN)),
            (rule.status(HANDLE), warning(DESTROY, HANDLE), note),
            (rule.call(DESTROY), warning(DESTROY, HANDLE), warning(Call::cuMemFree_v2, HANDLE)),
            (rule.call(DESTROY), warning(DESTROY, HANDLE), note),
        ] {
            assert!(rule.matches(&hit) && !rule.matches(&miss), "{rule:?}");
        }
    }

    #[test]
    fn a_rule_for_one_form_of_a_call_matches_its_other_forms() {
        let rule = Rule::new(Action::Ignore).call(Call::cuCtxCreate_v3);
        assert!(rule.matches(&warning(Call::cuCtxCreate_v4, HANDLE)));
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let filter = Filter::new(Action::Always)
            .rule(Rule::new(Action::Escalate).call(DESTROY).status(CUresult::UNKNOWN))
            .rule(Rule::new(Action::Ignore).call(DESTROY))
            .rule(Rule::new(Action::Once).status(HANDLE));
        assert_eq!(filter.action(&warning(DESTROY, CUresult::UNKNOWN)), Action::Escalate);
        assert_eq!(filter.action(&warning(DESTROY, HANDLE)), Action::Ignore);
        assert_eq!(filter.action(&warning(Call::cuMemFree_v2, HANDLE)), Action::Once);
        assert_eq!(filter.action(&warning(Call::cuMemFree_v2, CUresult::UNKNOWN)), Action::Always);
    }

    #[test]
    fn once_keys_differ_by_call_status_and_id_and_not_by_raw_value() {
        let of = |call, status, raw, id| {
            let object = Object { kind: ObjectKind::Stream, raw, id };
            once_key(&CudaWarning::failed(Failure { call, status }, object, Fate::Leaked))
        };
        let key = of(DESTROY, HANDLE, 1, 1);
        assert_eq!(key, of(DESTROY, HANDLE, 2, 1));
        assert_ne!(key, of(DESTROY, HANDLE, 1, 2));
        assert_ne!(key, of(DESTROY, CUresult::UNKNOWN, 1, 1));
        assert_ne!(key, of(Call::cuMemFree_v2, HANDLE, 1, 1));
        let nameless = Object::nameless(ObjectKind::Reclaimer);
        let note = once_key(&CudaWarning::note(nameless, "x"));
        assert_ne!(note, once_key(&CudaWarning::panicked(nameless, &"x")));
        assert_ne!(note, [0, 0]);
    }

    #[test]
    fn the_environment_s_words_are_the_four_actions() {
        let parse = |word: &str| Action::from_variable(Some(OsStr::new(word)));
        assert_eq!(Action::from_variable(None), Ok(None));
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("ignore"), Ok(Some(Action::Ignore)));
        assert_eq!(parse("once"), Ok(Some(Action::Once)));
        assert_eq!(parse("always"), Ok(Some(Action::Always)));
        assert_eq!(parse("escalate"), Ok(Some(Action::Escalate)));
    }

    #[test]
    fn a_word_that_is_no_action_is_an_error_that_says_so() {
        let error = Action::from_variable(Some(OsStr::new("Loud"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CUHOLD_WARNINGS is \"Loud\", not one of ignore, once, always, escalate"
        );
    }
}
