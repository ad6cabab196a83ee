package config

import (
	"fmt"
	"strings"
)

// RefusedError lists everything for which a living site cannot become what a file says. No
// value in it is a secret.
type RefusedError struct {
	// What is the beginning of the text, for example "this site cannot move as the file says".
	What        string
	Differences []Difference
}

func (e *RefusedError) Error() string {
	lines := []string{e.What + ":"}
	for _, d := range e.Differences {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(lines, "\n")
}

// String says for a person what is different, and what to do about it.
func (d Difference) String() string {
	switch {
	case d.Now == "" && d.File == "":
		return fmt.Sprintf("%s: %s", d.Path, d.How)
	case d.Now == "":
		return fmt.Sprintf("%s: only the file has it (%s): %s", d.Path, brief(d.File), d.How)
	case d.File == "":
		return fmt.Sprintf("%s: only the site has it (%s): %s", d.Path, brief(d.Now), d.How)
	}
	return fmt.Sprintf("%s: the site has %s, the file %s: %s", d.Path, brief(d.Now), brief(d.File), d.How)
}

// maxValue is the longest value in a message, in bytes.
const maxValue = 80

// brief returns the beginning of a value: a bundle of certificates has many lines.
func brief(value string) string {
	line, rest, _ := strings.Cut(value, "\n")
	if len(line) > maxValue {
		line, rest = line[:maxValue], "more"
	}
	if rest != "" {
		line += " ..."
	}
	return line
}
