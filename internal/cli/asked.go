package cli

import "io"

// asked is what a command that asks a host for something prints for a program, if it does not follow
// that (--no-wait) or changes nothing (--dry-run).
type asked struct {
	Host string `json:"host"`
	// Wish is what was written at the node, empty for a dry run.
	Wish string `json:"wish,omitempty"`
	// BeginsNow says of a dry run whether it would begin now. Waits is what it would wait for, or what
	// is in its way, and Why the reason if there is none.
	BeginsNow *bool  `json:"beginsNow,omitempty"`
	Waits     string `json:"waits,omitempty"`
	Why       string `json:"why,omitempty"`
	// Targets are those to which a backup would be sent.
	Targets []string `json:"targets,omitempty"`
	// Warning is what a person would be asked about.
	Warning string `json:"warning,omitempty"`
}

// print prints it for a program, or the words for a person: the result of a dry run, or a remark.
func (a asked) print(streams Streams, format, words string) error {
	if format == "json" || format == "yaml" {
		return printData(streams.Out, format, a)
	}
	to := streams.Out
	if a.Wish != "" {
		to = streams.Err
	}
	_, err := io.WriteString(to, words+"\n")
	return err
}
