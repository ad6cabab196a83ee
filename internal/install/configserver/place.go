package configserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/holdfast/holdfast/internal/model/state"
)

// standing is the answer to a host that asks whether a machine has its name.
type standing struct {
	// Out says that another machine has the place of the asking one; empty if it has not.
	Out string `json:"out,omitempty"`
}

// place tells a host whether another machine has its place. It needs no token: who asks names a
// machine, and learns that it was taken out, or nothing.
func (s *server) place(w http.ResponseWriter, r *http.Request) {
	if s.Place == nil {
		http.NotFound(w, r)
		return
	}
	query := r.URL.Query()
	out, err := s.Place(r.PathValue("host"), state.Machine{UUID: query.Get("uuid"), Serial: query.Get("serial")})
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(standing{Out: out})
}

// OutOf asks whether another machine has the place of a host. It returns what the control
// plane says, empty if it says nothing of the kind.
func (c *Client) OutOf(ctx context.Context, host string, m state.Machine) (string, error) {
	query := url.Values{"uuid": {m.UUID}, "serial": {m.Serial}}
	resp, err := c.do(ctx, http.MethodGet, "/hosts/"+url.PathEscape(host)+"/place?"+query.Encode(), "")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxEnter))
	switch {
	case err != nil:
		return "", fmt.Errorf("ask for the place of %s: %w", host, err)
	case resp.StatusCode == http.StatusNotFound: // an older build
		return "", nil
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("ask for the place of %s: %s", host, resp.Status)
	}
	var said standing
	if err := json.Unmarshal(data, &said); err != nil {
		return "", fmt.Errorf("ask for the place of %s: %w", host, err)
	}
	return Words([]byte(said.Out)), nil
}
