//! The flags of `attache setup`: one for each answer, so that it can be typed or given.

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::path::PathBuf;

/// An answer: the flag that gives it, and the words that ask for it on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetupQuestion {
    pub flag: &'static str,
    pub asks: &'static str,
    /// Answers that a terminal lists with their numbers, and what each means.
    pub choices: &'static [(&'static str, &'static str)],
    /// `true`: a terminal asks only with `--expert`, or when the part of the answer was refused.
    pub is_expert: bool,
    value: &'static str,
    help: &'static str,
}

impl SetupQuestion {
    const fn among(self, choices: &'static [(&'static str, &'static str)]) -> Self {
        Self { choices, ..self }
    }

    const fn for_experts(self) -> Self {
        Self {
            is_expert: true,
            ..self
        }
    }
}

/// Answer for a provider whose servers nobody knows here.
pub const OTHER: &str = "other";
/// Form of a provider that has a name of its owner's choice.
pub const NAMED_SERVER: &str = "compat:NAME";

/// A secret: the flags that name where it is, and the words that ask for it on a terminal. No flag holds it: other
/// users see the arguments of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretQuestion {
    pub file: &'static str,
    pub variable: &'static str,
    pub asks: &'static str,
    help: &'static str,
}

const fn question(
    flag: &'static str,
    value: &'static str,
    asks: &'static str,
    help: &'static str,
) -> SetupQuestion {
    SetupQuestion {
        flag,
        asks,
        choices: &[],
        is_expert: false,
        value,
        help,
    }
}

pub const OWNER: SetupQuestion = question(
    "owner",
    "ADDRESS",
    "your own mail address",
    "Your own address: notices and reports go there; several with commas between them",
);
pub const DOMAIN: SetupQuestion = question(
    "domain",
    "DOMAIN",
    "mail domain of the persona, the part behind the @",
    "Mail domain of the persona: the part behind the @",
);
pub const PERSONA: SetupQuestion = question(
    "persona",
    "ID",
    "the persona's part before the @",
    "The persona's folder below `personas/`, and its address before the @",
);
pub const NAME: SetupQuestion = question(
    "name",
    "NAME",
    "the persona's name in its mails",
    "Display name in its mails [default: its id]",
);
pub const TIMEZONE: SetupQuestion = question(
    "timezone",
    "ZONE",
    "time zone, such as Europe/Berlin",
    "Time zone of its schedules and dates [default: this machine's]",
);
pub const HOST_NAME: SetupQuestion = question(
    "host-name",
    "NAME",
    "name of this machine in mail, as in the MX record",
    "Name of this machine in mail, as in the MX record [default: the domain]",
);
pub const IN: SetupQuestion = question(
    "in",
    "KIND",
    "how mail comes in",
    "How mail comes in: `smtp`, `lmtp`, `imap` or `folder`",
)
.among(&[
    ("imap", "from a mailbox at a provider"),
    ("smtp", "to this machine, as a mail server"),
    (
        "lmtp",
        "from a mail server on this machine, such as Postfix",
    ),
    ("folder", "as .eml files in a folder"),
]);
pub const MAIL_PROVIDER: SetupQuestion = question(
    "mail-provider",
    "NAME",
    "the mailbox's provider",
    "For imap: `gmail`, `fastmail`, `mailbox.org` or `migadu`, whose servers are known; `other` [default: other]",
)
.among(&[
    ("gmail", "Gmail"),
    ("fastmail", "Fastmail"),
    ("mailbox.org", "mailbox.org"),
    ("migadu", "Migadu"),
    (OTHER, "another one"),
]);
pub const LISTEN: SetupQuestion = question(
    "listen",
    "ADDRESS",
    "address to listen on",
    "For smtp and lmtp: address and port, such as `127.0.0.1:2525`, or `unix:PATH`",
);
pub const AUTHSERV_ID: SetupQuestion = question(
    "authserv-id",
    "NAME",
    "name with which the mail server in front begins its Authentication-Results, to trust them; - for none",
    "Name with which the mail server in front begins its `Authentication-Results`, which are then trusted; `-` for none",
)
.for_experts();
pub const IMAP_HOST: SetupQuestion = question(
    "imap-host",
    "HOST",
    "IMAP server",
    "For imap: host of the mailbox",
);
pub const IMAP_PORT: SetupQuestion = question(
    "imap-port",
    "PORT",
    "its port; - for the usual one",
    "For imap: port [default: 993, or 143 without `implicit`]",
);
pub const IMAP_TLS: SetupQuestion = question(
    "imap-tls",
    "MODE",
    "its TLS: implicit, starttls or none",
    "For imap: `implicit`, `starttls`, or `none` for this machine only [default: implicit]",
);
pub const IMAP_USER: SetupQuestion = question(
    "imap-user",
    "USER",
    "user of the mailbox",
    "For imap: user name",
);
pub const IMAP_PASSWORD: SecretQuestion = SecretQuestion {
    file: "imap-password-file",
    variable: "imap-password-variable",
    asks: "the mailbox's password",
    help: "For imap: file with the password; `-` is standard input",
};
pub const IN_FOLDER: SetupQuestion = question(
    "in-folder",
    "PATH",
    "folder whose .eml files are letters",
    "For folder: path, relative to the workspace",
);
pub const OUT: SetupQuestion = question(
    "out",
    "KIND",
    "how mail leaves",
    "How mail leaves: `smarthost`, or `folder`, which sends nothing",
)
.among(&[
    ("smarthost", "by a mail server, such as your provider's"),
    ("folder", "as files in a folder: nothing is sent"),
]);
pub const REPLY: SetupQuestion = question(
    "reply",
    "MODE",
    "answers to others",
    "Answers to others: `draft` waits for your yes, `final` leaves at once [default: `draft` for imap, else `final`]",
)
.among(&[
    ("draft", "each waits for your yes"),
    ("final", "each leaves at once, in your persona's name"),
    ("tool_only", "none: only mails of tools leave"),
]);
pub const SMTP_HOST: SetupQuestion = question(
    "smtp-host",
    "HOST",
    "mail server that sends",
    "For smarthost: host",
);
pub const SMTP_PORT: SetupQuestion = question(
    "smtp-port",
    "PORT",
    "its port; - for the usual one",
    "For smarthost: port [default: 587, 465 for `implicit`, 25 for `none`]",
);
pub const SMTP_TLS: SetupQuestion = question(
    "smtp-tls",
    "MODE",
    "its TLS: starttls, implicit or none",
    "For smarthost: `starttls`, `implicit`, or `none` for this machine only [default: starttls]",
);
pub const SMTP_USER: SetupQuestion = question(
    "smtp-user",
    "USER",
    "user there; - for none",
    "For smarthost: user name; `-` for none",
);
pub const SMTP_PASSWORD: SecretQuestion = SecretQuestion {
    file: "smtp-password-file",
    variable: "smtp-password-variable",
    asks: "the user's password",
    help: "For smarthost: file with the password; `-` is standard input",
};
pub const BOUNCE: SetupQuestion = question(
    "bounce-address",
    "FORM",
    "return address of mails",
    "For smarthost: `tagged`, or `plain` where the server takes mail from the account's own address alone",
)
.among(&[
    ("tagged", "one for each mail, so that a bounce names its mail"),
    ("plain", "the account's own, where the server takes no other"),
])
.for_experts();
pub const OUT_FOLDER: SetupQuestion = question(
    "out-folder",
    "PATH",
    "folder for the mails",
    "For folder: path, relative to the workspace [default: data/outbox]",
);
pub const PROVIDER: SetupQuestion = question(
    "provider",
    "NAME",
    "the model's provider",
    "Provider of the model, such as `anthropic`, `openai`, `ollama` or `compat:NAME`",
)
.among(&[
    ("anthropic", "Anthropic (Claude)"),
    ("openai", "OpenAI (GPT)"),
    ("gemini", "Google (Gemini)"),
    ("grok", "xAI (Grok)"),
    ("openrouter", "OpenRouter"),
    ("ollama", "Ollama on this machine"),
    ("claude", "the program Claude Code"),
    ("codex", "the program Codex"),
    ("opencode", "the program opencode"),
    ("pi", "the program pi"),
    ("scripted", "no model: a test answer"),
    (
        NAMED_SERVER,
        "another server with OpenAI's API: type compat: and a name",
    ),
]);
pub const MODEL: SetupQuestion = question(
    "model",
    "MODEL",
    "its model",
    "Model, by the provider's name for it",
);
pub const BASE_URL: SetupQuestion = question(
    "base-url",
    "URL",
    "URL of the server; - for the vendor's own",
    "URL of another server with the provider's API; `-` for the vendor's own",
);
pub const KEY: SecretQuestion = SecretQuestion {
    file: "key-file",
    variable: "key-variable",
    asks: "the provider's key",
    help: "File with the provider's key; `-` is standard input",
};

const ANSWERS: [(&str, &[SetupQuestion]); 4] = [
    ("Whose it is", &[OWNER, DOMAIN, PERSONA, NAME, TIMEZONE]),
    (
        "Way in",
        &[
            IN,
            LISTEN,
            HOST_NAME,
            AUTHSERV_ID,
            MAIL_PROVIDER,
            IMAP_HOST,
            IMAP_PORT,
            IMAP_TLS,
            IMAP_USER,
            IN_FOLDER,
        ],
    ),
    (
        "Way out",
        &[
            REPLY, OUT, SMTP_HOST, SMTP_PORT, SMTP_TLS, SMTP_USER, BOUNCE, OUT_FOLDER,
        ],
    ),
    ("Model", &[PROVIDER, MODEL, BASE_URL]),
];
const SECRETS: [(&str, SecretQuestion); 3] = [
    ("Way in", IMAP_PASSWORD),
    ("Way out", SMTP_PASSWORD),
    ("Model", KEY),
];

/// Adds the arguments.
pub fn arguments(command: clap::Command) -> clap::Command {
    let answers = ANSWERS.iter().flat_map(|(heading, questions)| {
        questions.iter().map(move |question| {
            Arg::new(question.flag)
                .long(question.flag)
                .value_name(question.value)
                .allow_hyphen_values(true)
                .help_heading(*heading)
                .help(question.help)
        })
    });
    let secrets = SECRETS.iter().flat_map(|(heading, secret)| {
        let from_variable = format!(
            "Take the secret of --{} from this environment variable",
            secret.file
        );
        [
            Arg::new(secret.file)
                .long(secret.file)
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help_heading(*heading)
                .help(secret.help),
            Arg::new(secret.variable)
                .long(secret.variable)
                .value_name("NAME")
                .conflicts_with(secret.file)
                .help_heading(*heading)
                .help(from_variable),
        ]
    });
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    command
        .after_help(
            "On a terminal it asks for what no flag gives; a number chooses from a list, and `<` goes back one question. \
             Elsewhere the flags and what the workspace holds must be enough. \
             It can be run again: what is there is the default, and a file that exists changes only after its difference was \
             shown. Nothing is written before every check is good. Passwords and keys go to `.secrets`.",
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Folder to write to [default: the workspace]"),
        )
        .arg(flag("yes", "Ask nothing, and change files that exist"))
        .arg(flag("expert", "Ask also what most people never change"))
        .arg(flag("offline", "Ask no server: neither mail servers nor the model nor DNS"))
        .args(answers)
        .args(secrets)
}

/// The text of a flag, if it was given.
pub fn given(args: &ArgMatches, question: SetupQuestion) -> Option<&str> {
    args.get_one::<String>(question.flag)
        .map(|text| text.trim())
}
