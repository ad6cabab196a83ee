package pacemaker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// attributeTimeout bounds one call of attrd_updater, which takes 10 ms if
// Pacemaker answers.
const attributeTimeout = 2 * time.Second

// noSuchAttribute are the exit codes of attrd_updater if no node has the
// attribute (CRM_EX_CONFIG of pacemaker 2.1.5, CRM_EX_NOSUCH of later ones).
var noSuchAttribute = []int{78, 105}

// Publish sets this node's private attribute to a value. Private attributes
// live in the memory of Pacemaker's attribute daemons: they never reach the
// CIB, start no transition, and end with the node.
//
// The value is an argument of a process, so it must hold no secret. It is
// written in base64 because versions differ in how they quote what they print.
func Publish(ctx context.Context, name, value string) error {
	coded := base64.StdEncoding.EncodeToString([]byte(value))
	if _, err := attrd(ctx, "--private", "--name", name, "--update", coded); err != nil {
		return fmt.Errorf("publish attribute %s: %w", name, without{err, coded})
	}
	return nil
}

// without is an error whose text leaves out a value: people read it.
type without struct {
	cause error
	value string
}

func (w without) Error() string { return strings.ReplaceAll(w.cause.Error(), w.value, "…") }

func (w without) Unwrap() error { return w.cause }

// PrivateAttribute returns a node's private attribute; found is false if the node has none,
// as after it was lost.
func PrivateAttribute(ctx context.Context, name, node string) (value string, found bool, err error) {
	out, err := attrd(ctx, "--name", name, "--query", "--node", node)
	for _, code := range noSuchAttribute {
		if host.ExitCode(err) == code {
			return "", false, nil
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("read attribute %s of %s: %w", name, node, err)
	}
	coded, err := attributeValue(string(out), node)
	if err != nil || coded == "" {
		return "", false, err
	}
	plain, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return "", false, fmt.Errorf("read attribute %s of %s: %w", name, node, err)
	}
	return string(plain), true, nil
}

// PrivateAttributes returns a private attribute of all nodes that have it, in one call.
func PrivateAttributes(ctx context.Context, name string) (map[string]string, error) {
	out, err := attrd(ctx, "--name", name, "--query", "--all")
	if err != nil && !slices.Contains(noSuchAttribute, host.ExitCode(err)) {
		return nil, fmt.Errorf("read attribute %s: %w", name, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		node, coded := attributeLine(strings.TrimSpace(line))
		if coded == "" {
			continue
		}
		plain, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			return nil, fmt.Errorf("read attribute %s of %s: %w", name, node, err)
		}
		values[node] = string(plain)
	}
	return values, nil
}

// ShutdownRequested reports whether Pacemaker on a node has been told to stop, as at a
// shutdown of its host. Pacemaker publishes that before it stops anything.
func ShutdownRequested(ctx context.Context, node string) (bool, error) {
	out, err := attrd(ctx, "--name", "shutdown", "--query", "--node", node)
	if err != nil && !slices.Contains(noSuchAttribute, host.ExitCode(err)) {
		return false, fmt.Errorf("ask whether Pacemaker of %s stops: %w", node, err)
	}
	value, err := attributeValue(string(out), node)
	return value != "" && value != "0", err
}

// attributeLine parses `name="N" host="cp-1" value="V"`; it returns two empty
// strings if the line has another form.
func attributeLine(line string) (node, value string) {
	_, rest, ok := strings.Cut(line, ` host="`)
	if !ok {
		return "", ""
	}
	node, rest, _ = strings.Cut(rest, `" value="`)
	value, ok = strings.CutSuffix(rest, `"`)
	if !ok {
		return "", ""
	}
	return node, value
}

func attrd(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attributeTimeout, errors.New("the attribute daemon of Pacemaker does not answer"))
	defer cancel()
	return host.Run(ctx, host.Command("attrd_updater", args...))
}

// attributeValue parses `name="N" host="cp-1" value="V"`. A node without the
// attribute has an empty value, or no line.
func attributeValue(out, node string) (string, error) {
	for line := range strings.Lines(out) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), ` host="`+node+`" value="`)
		if !ok {
			continue
		}
		value, ok := strings.CutSuffix(rest, `"`)
		if !ok {
			return "", fmt.Errorf("read attribute of %s: a line has no end: %.80q", node, line)
		}
		return value, nil
	}
	return "", nil
}
