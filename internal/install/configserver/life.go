package configserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/holdfast/holdfast/internal/model/state"
)

// life tells which life of its site this control plane is of. It needs no token: a host of a former
// life has none of this one, and the answer opens nothing.
func (s *server) life(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Life)
}

// Life returns the life of its site that a control plane is of, and whether it knows of lives: an
// older build does not.
func (c *Client) Life(ctx context.Context) (l state.Life, known bool, err error) {
	resp, err := c.do(ctx, http.MethodGet, lifePath, "")
	if err != nil {
		return l, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxEnter))
	switch {
	case err != nil:
		return l, false, fmt.Errorf("ask for the life of the site: %w", err)
	case resp.StatusCode == http.StatusNotFound:
		return l, false, nil
	case resp.StatusCode != http.StatusOK:
		return l, false, fmt.Errorf("ask for the life of the site: %s", resp.Status)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return state.Life{}, false, fmt.Errorf("ask for the life of the site: %w", err)
	}
	return l, true, nil
}
