package fence

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultPowerTimeout is the time that a fence may take, without its delay.
// Together with the delay it must end before Pacemaker's stonith-timeout.
const defaultPowerTimeout = 40 * time.Second

// option is one parameter of the agent. The parser and the metadata use the
// same table.
type option struct {
	name     string
	short    string // on the command line, without its dash
	kind     string // as the metadata spells it
	fallback string
	required bool
	doc      string
}

var optionTable = []option{
	{"action", "o", "string", "reboot", true, "What to do: off, reboot, on, status, monitor, list, validate-all or metadata."},
	{"plug", "n", "string", "", true, "Name of the node to fence. Its BMC and account are read from /etc/holdfast/fencing/NAME.json."},
	{"port", "", "string", "", false, "The same as plug."},
	{"nodename", "N", "string", "", false, "Name of the node that Pacemaker intends to fence. If plug names another one, nothing is done."},
	{"power_timeout", "", "second", "40", false, "How long to try until the BMC says Off, not counting the delay of the device; a BMC that answers slowly gets the time of three answers if that is longer. Keep it, and the delay, below stonith-timeout."},
	{"delay", "", "second", "0", false, "Ignored: the delay of a target is in its file, so that it can be cut short when the BMC says Off."},
}

// actions lists the actions of the FenceAgentAPI, in the order of the metadata.
var actions = []string{"on", "off", "reboot", "status", "list", "monitor", "metadata", "validate-all"}

// options holds the options of one call.
type options struct {
	action       string
	target       string
	powerTimeout time.Duration
	// byHand is true for a call with arguments, which an administrator makes:
	// Pacemaker writes lines to standard input.
	byHand bool
}

// parse reads the options of a call. It ignores unknown options on standard
// input, where Pacemaker writes more than this agent needs, and rejects them on
// the command line.
func parse(in io.Reader, args []string) (options, error) {
	values := map[string]string{}
	var err error
	if len(args) > 0 {
		err = parseArgs(values, args)
	} else {
		err = parseLines(values, in)
	}
	if err != nil {
		return options{}, err
	}
	o, err := choose(values)
	o.byHand = len(args) > 0
	return o, err
}

func parseLines(values map[string]string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		values[strings.ReplaceAll(name, "-", "_")] = strings.TrimSpace(value)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read options: %w", err)
	}
	return nil
}

func parseArgs(values map[string]string, args []string) error {
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		o, err := optionOf(name)
		if err != nil {
			return err
		}
		if !joined {
			if len(args) == 0 {
				return fmt.Errorf("option %s: a value must follow", name)
			}
			value, args = args[0], args[1:]
		}
		values[o] = value
	}
	return nil
}

// optionOf returns the name of the option that is spelled like -n or --plug.
func optionOf(spelled string) (string, error) {
	long, isLong := strings.CutPrefix(spelled, "--")
	short, isShort := strings.CutPrefix(spelled, "-")
	i := slices.IndexFunc(optionTable, func(o option) bool {
		return isLong && o.name == strings.ReplaceAll(long, "-", "_") || !isLong && isShort && o.short != "" && o.short == short
	})
	if i < 0 {
		return "", fmt.Errorf("option %s: there is no such option; 'fence_holdfast --action=metadata' lists them", spelled)
	}
	return optionTable[i].name, nil
}

// choose turns the values into options, or returns everything that is wrong
// with them.
func choose(values map[string]string) (options, error) {
	o := options{action: values["action"], powerTimeout: defaultPowerTimeout}
	if o.action == "" {
		o.action = "reboot"
	}
	if o.action == "meta-data" {
		o.action = "metadata"
	}
	var mistakes []error
	if !slices.Contains(actions, o.action) {
		mistakes = append(mistakes, fmt.Errorf("action %q: must be one of %s", o.action, strings.Join(actions, ", ")))
	}
	if s := values["power_timeout"]; s != "" {
		seconds, err := strconv.Atoi(strings.TrimSuffix(s, "s"))
		if err != nil || seconds <= 0 {
			mistakes = append(mistakes, fmt.Errorf("power_timeout %q: must be a number of seconds", s))
		}
		o.powerTimeout = time.Duration(seconds) * time.Second
	}
	target, err := targetOf(values)
	if err != nil && o.action != "metadata" && o.action != "list" {
		mistakes = append(mistakes, err)
	}
	o.target = target
	return o, errors.Join(mistakes...)
}

// targetOf returns the target node. If several names are given, they must be
// equal: switching off the wrong host is worse than switching off none.
func targetOf(values map[string]string) (string, error) {
	var target string
	for _, name := range []string{"plug", "port", "nodename"} {
		switch v := values[name]; {
		case v == "":
		case target == "":
			target = v
		case target != v:
			return "", fmt.Errorf("%s is %q, but %q was named before: nothing was done, because the target is ambiguous", name, v, target)
		}
	}
	if target == "" {
		return "", errors.New("plug: a node name is required")
	}
	return target, nil
}
