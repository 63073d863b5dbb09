//! `SKILL.md`: front matter and body, and the rules of agentskills.io.

use crate::config::is_skill_name;
use crate::schedule_file::front::{self, FrontEntry, FrontValue};

const DESCRIPTION_CHARS_MAX: usize = 1024;
const COMPATIBILITY_CHARS_MAX: usize = 500;
/// Keys that the format has.
const KEYS: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
];

/// A `SKILL.md` that keeps the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    pub description: String,
    /// `allowed-tools`.
    pub tools: Option<Vec<String>>,
    pub body: String,
}

/// Reads a file of the folder with this name. Errors: every rule that it breaks.
pub fn parse(text: &str, folder: &str) -> Result<SkillFile, Vec<String>> {
    let one = |problem: &str| Err(vec![problem.to_owned()]);
    if text.contains('\r') || text.starts_with('\u{feff}') {
        return one("it has a byte order mark or Windows line ends; save it as plain UTF-8");
    }
    let Some(rest) = text.strip_prefix("---\n") else {
        return one("it does not begin with a line `---` and front matter");
    };
    let Some((front, body)) = rest
        .split_once("\n---\n")
        .or_else(|| Some((rest.strip_suffix("\n---")?, "")))
    else {
        return one("its front matter does not end with a line `---`");
    };
    let entries = front::read(front, 2).map_err(|error| vec![error.to_string()])?;
    let mut problems = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| !KEYS.contains(&entry.key.as_str()))
    {
        problems.push(format!(
            "line {}: no key `{}`; there are: {}",
            entry.line,
            entry.key,
            KEYS.join(", ")
        ));
    }
    let fields = SkillFields(&entries);
    match fields.text("name", &mut problems) {
        Some(name) if name != folder => {
            problems.push(format!("`name` is `{name}` and the folder is `{folder}`; they must be alike"));
        }
        Some(_) if is_skill_name(folder) => {}
        Some(_) => problems.push(
            "`name` has 1 to 64 of a-z, 0-9 and single hyphens, and neither begins nor ends with one".to_owned(),
        ),
        None => problems.push("`name` is missing".to_owned()),
    }
    let description = fields.text("description", &mut problems);
    match description.as_deref().map(|text| text.chars().count()) {
        None => problems.push("`description` is missing".to_owned()),
        Some(count) if count > DESCRIPTION_CHARS_MAX => problems.push(format!(
            "`description` has more than {DESCRIPTION_CHARS_MAX} characters"
        )),
        Some(_) => {}
    }
    if let Some(text) = fields.text("compatibility", &mut problems)
        && text.chars().count() > COMPATIBILITY_CHARS_MAX
    {
        problems.push(format!(
            "`compatibility` has more than {COMPATIBILITY_CHARS_MAX} characters"
        ));
    }
    let _license = fields.text("license", &mut problems);
    fields.check_metadata(&mut problems);
    let tools = fields.text("allowed-tools", &mut problems);
    let tools = tools.map(|text| text.split_whitespace().map(str::to_owned).collect());
    match problems.is_empty() {
        true => Ok(SkillFile {
            description: description.unwrap_or_default(),
            tools,
            body: body.trim().to_owned(),
        }),
        false => Err(problems),
    }
}

struct SkillFields<'a>(&'a [FrontEntry]);

impl SkillFields<'_> {
    fn value(&self, key: &str) -> Option<&FrontValue> {
        let entry = self.0.iter().find(|entry| entry.key == key)?;
        Some(&entry.value.value)
    }

    /// Returns a text that is not empty.
    fn text(&self, key: &str, problems: &mut Vec<String>) -> Option<String> {
        match self.value(key)? {
            FrontValue::Text(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            _ => {
                problems.push(format!("`{key}` is no text, or empty"));
                None
            }
        }
    }

    fn check_metadata(&self, problems: &mut Vec<String>) {
        let is_right = match self.value("metadata") {
            None => true,
            Some(FrontValue::Map(entries)) => entries
                .iter()
                .all(|entry| matches!(entry.value.value, FrontValue::Text(_))),
            Some(_) => false,
        };
        if !is_right {
            problems.push("`metadata` is a map of texts".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        parse(text, "count-guests")
            .expect_err("a problem")
            .join("; ")
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "---\nname: count-guests\ndescription: Counts guests. Use it before breakfast.\nlicense: MIT\n\
             compatibility: needs python3\nmetadata:\n  author: olga\nallowed-tools: read_file shell\n---\n\n# Count\n\nDo it.\n";
        let file = parse(text, "count-guests").expect("a skill");
        assert_eq!(file.description, "Counts guests. Use it before breakfast.");
        assert_eq!(file.tools.expect("tools"), ["read_file", "shell"]);
        assert_eq!(file.body, "# Count\n\nDo it.");
    }

    #[test]
    fn each_broken_rule_is_named() {
        let head = |lines: &str| format!("---\n{lines}\n---\nBody\n");
        assert!(problems("# No front matter").contains("does not begin"));
        assert!(problems("---\nname: count-guests\n").contains("does not end"));
        assert!(problems(&head("name: other\ndescription: d")).contains("must be alike"));
        assert!(problems(&head("description: d")).contains("`name` is missing"));
        assert!(problems(&head("name: count-guests")).contains("`description` is missing"));
        assert!(problems(&head("name: count-guests\ndescription: ''")).contains("no text"));
        let long = "x".repeat(1025);
        assert!(
            problems(&head(&format!("name: count-guests\ndescription: {long}")))
                .contains("more than 1024")
        );
        let good = "name: count-guests\ndescription: d\n";
        assert!(problems(&head(&format!("{good}version: 1"))).contains("no key `version`"));
        assert!(problems(&head(&format!("{good}metadata: [a]"))).contains("map of texts"));
        assert!(
            problems(&head(&format!("{good}compatibility: {}", "x".repeat(501))))
                .contains("more than 500")
        );
        let exactly = "x".repeat(1024);
        assert!(
            parse(
                &head(&format!("name: count-guests\ndescription: {exactly}")),
                "count-guests"
            )
            .is_ok()
        );
        let name = parse(&head("name: Count_\ndescription: d"), "Count_").expect_err("a bad name");
        assert!(name[0].contains("a-z"), "{name:?}");
    }
}
