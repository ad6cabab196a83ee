package observer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
)

// Line returns the command that prints parts of the report of the host on which
// it runs.
func Line(parts ...hostreport.Part) []string {
	var names []string
	for _, p := range parts {
		names = append(names, string(p))
	}
	return []string{"holdfast-agent", "report", "-o", "json", "--only", strings.Join(names, ",")}
}

// Ask asks the agent of another host for parts of its report.
func Ask(ctx context.Context, name string, run host.Runner, parts ...hostreport.Part) (hostreport.Report, error) {
	var r hostreport.Report
	text, err := run(ctx, Line(parts...)...)
	if err != nil {
		return r, fmt.Errorf("report of %s: %w", name, err)
	}
	if err = json.Unmarshal(text, &r); err == nil && r.Host == "" {
		err = errors.New("it names no host")
	}
	if err != nil {
		return r, fmt.Errorf("report of %s: another version of holdfast, or none, is installed there: %w", name, err)
	}
	if !strings.EqualFold(r.Host, name) {
		return r, fmt.Errorf("report of %s: another host answers there: %s", name, r.Host)
	}
	return r, nil
}
