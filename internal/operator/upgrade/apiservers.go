package upgrade

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// The port of API servers, how long one may take to show its figures, and how long a line
// of them may be, in bytes.
const (
	apiPort      = "6443"
	figuresLimit = 10 * time.Second
	longestLine  = 1 << 20
)

// APIServers asks API servers for their figures, each by its own address.
type APIServers struct {
	// Config is the access to any of them.
	Config *rest.Config
}

// Deprecated asks all API servers which APIs that Kubernetes removes they were asked for
// since they started. One that does not answer is missing.
func (a APIServers) Deprecated(ctx context.Context, addresses map[string]string) map[string][]gate.Use {
	var mu sync.Mutex
	var group sync.WaitGroup
	out := map[string][]gate.Use{}
	for name, address := range addresses {
		group.Go(func() {
			uses, err := a.ask(ctx, address)
			if err != nil {
				return // it is missing in the result
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = uses
		})
	}
	group.Wait()
	return out
}

// at returns what asks the API server at an address, and the beginning of its URLs.
func (a APIServers) at(address string) (c *http.Client, server string, err error) {
	cfg := rest.CopyConfig(a.Config)
	cfg.Dial = nil // that of the access goes to whichever server answers
	cfg.ServerName = ""
	if c, err = rest.HTTPClientFor(cfg); err != nil {
		return nil, "", err
	}
	host := address
	if _, _, err := net.SplitHostPort(address); err != nil {
		host = net.JoinHostPort(address, apiPort)
	}
	return c, "https://" + host, nil
}

func (a APIServers) ask(ctx context.Context, address string) ([]gate.Use, error) {
	ctx, stop := context.WithTimeout(ctx, figuresLimit)
	defer stop()
	c, server, err := a.at(address)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server at %s shows no figures: %s", address, answer.Status)
	}
	return deprecated(answer.Body)
}

// gauge begins the lines of the figure of deprecated APIs.
const gauge = "apiserver_requested_deprecated_apis{"

// deprecated reads the APIs with a release that removes them.
func deprecated(figures io.Reader) ([]gate.Use, error) {
	var out []gate.Use
	lines := bufio.NewScanner(figures)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		text, is := strings.CutPrefix(lines.Text(), gauge)
		labels, value, closed := strings.Cut(text, "}")
		if !is || !closed || strings.TrimSpace(value) == "0" {
			continue
		}
		of := map[string]string{}
		for pair := range strings.SplitSeq(labels, ",") {
			name, quoted, _ := strings.Cut(pair, "=")
			of[name] = strings.Trim(quoted, `"`)
		}
		removed, err := gate.ParseVersion(of["removed_release"] + ".0")
		if err != nil {
			continue // none removes it yet
		}
		api := of["resource"] + "." + of["version"] + "." + of["group"]
		if sub := of["subresource"]; sub != "" {
			api = of["resource"] + "/" + sub + "." + of["version"] + "." + of["group"]
		}
		out = append(out, gate.Use{API: strings.TrimSuffix(api, "."), Removed: removed})
	}
	return out, lines.Err()
}
