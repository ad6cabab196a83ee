package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Parse reads an install-config in YAML or JSON, fills in the defaults and
// checks every rule. The error is an *InvalidError that names all mistakes at
// once. However it is printed, it never holds a password, a pull secret or the
// userinfo of a URL.
func Parse(data []byte) (*InstallConfig, error) {
	c := &InstallConfig{}
	d := decode(data, c)
	Default(c)
	errs := slices.Concat(d.errs, validate(c, d.broken))
	if len(errs) > 0 {
		return nil, newInvalidError(errs)
	}
	normalize(c)
	return c, nil
}

// Made reads a configuration from which something was already made: it kept the
// rules of the build that did so, and today's may differ. Defaults are filled
// in, and no rule is checked.
func Made(data []byte) (*InstallConfig, error) {
	c, err := Unmarshal(data)
	if err != nil {
		return nil, err
	}
	Default(c)
	normalize(c)
	return c, nil
}

// Unmarshal reads what Marshal wrote, without defaults and without checking a
// rule: it is for parts of a configuration that was valid as a whole. An unknown
// or unreadable field is an *InvalidError.
func Unmarshal(data []byte) (*InstallConfig, error) {
	c := &InstallConfig{}
	if d := decode(data, c); len(d.errs) > 0 {
		return nil, newInvalidError(d.errs)
	}
	return c, nil
}

// InvalidError holds all mistakes of one file.
type InvalidError struct {
	errs field.ErrorList
}

func newInvalidError(errs field.ErrorList) *InvalidError {
	errs = slices.Clone(errs)
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(comparePaths(a.Field, b.Field), cmp.Compare(a.Detail, b.Detail))
	})
	return &InvalidError{errs: errs}
}

// Errors returns the mistakes ordered by field path.
func (e *InvalidError) Errors() field.ErrorList { return e.errs }

// Error implements error: a line with their number, then one line for each
// mistake.
func (e *InvalidError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the install configuration has %s:", count(len(e.errs), "mistake"))
	for _, err := range e.errs {
		b.WriteString("\n  " + err.Error())
	}
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// comparePaths orders field paths as a reader expects: hosts[2] before
// hosts[10].
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		restA, numA := leadingNumber(a)
		restB, numB := leadingNumber(b)
		if numA >= 0 && numB >= 0 {
			if c := cmp.Compare(numA, numB); c != 0 {
				return c
			}
			a, b = restA, restB
			continue
		}
		if c := cmp.Compare(a[0], b[0]); c != 0 {
			return c
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// leadingNumber splits a number off the front of s; it is -1 if there is none.
func leadingNumber(s string) (rest string, number int) {
	end := 0
	for end < len(s) && end < 9 && isDigit(rune(s[end])) {
		end++
	}
	if end == 0 {
		return s, -1
	}
	n, _ := strconv.Atoi(s[:end]) // at most nine digits
	return s[end:], n
}
