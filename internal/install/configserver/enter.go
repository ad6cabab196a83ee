package configserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/jointoken"
)

// Entry is the answer to a control plane that asks to take the place of a lost one.
type Entry struct {
	// Needed is false if kubelet runs etcd of this host at first, as in an installation.
	Needed bool `json:"needed"`
	// Waits says what the host waits for; empty if it may enter.
	Waits string `json:"waits,omitempty"`
	// Input is the input for the set-up of both hosts, Conf the corosync.conf of both. They
	// hold secrets.
	Input json.RawMessage `json:"input,omitempty"`
	Conf  []byte          `json:"conf,omitempty"`
	// Pod is the file from which kubelet runs etcd of the third control plane beside two
	// (docs/adr/0097), empty until its member is listed. It holds no secret.
	Pod []byte `json:"pod,omitempty"`
}

// maxEnter bounds the request of a host, in bytes.
const maxEnter = 4 << 10

// maxEntry bounds the answer, in bytes.
const maxEntry = 64 << 10

// Enter asks another control plane what it answers a host that asks to enter, in the name of that host.
func (c *Client) Enter(ctx context.Context, host, token string, request []byte) (Entry, error) {
	resp, err := c.ask(ctx, http.MethodPost, "/hosts/"+url.PathEscape(host)+"/enter", token, request)
	if err != nil {
		return Entry{}, fmt.Errorf("ask for the entry of %s: %w", host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxEntry))
	switch {
	case err != nil:
		return Entry{}, fmt.Errorf("ask for the entry of %s: %w", host, err)
	case resp.StatusCode == http.StatusConflict:
		return Entry{}, joining.Refusal(Words(data))
	case resp.StatusCode != http.StatusOK:
		return Entry{}, fmt.Errorf("ask for the entry of %s: %s", host, resp.Status)
	}
	var entry Entry
	if err := json.Unmarshal(data, &entry); err != nil {
		return Entry{}, fmt.Errorf("ask for the entry of %s: %w", host, err)
	}
	return entry, nil
}

// enter answers a control plane that asks to take the place of a lost one.
func (s *server) enter(w http.ResponseWriter, r *http.Request) {
	own, ok := s.authorized(w, r, jointoken.Host, "", r.PathValue("host"))
	if !ok {
		return
	}
	if !own.Role.ControlPlane() || s.Enter == nil {
		s.refuse(w, r, http.StatusForbidden, "only a control plane takes the place of another one")
		return
	}
	request, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEnter))
	if err != nil {
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "the request is too long")
		return
	}
	answer, err := s.Enter(r.Context(), own, request)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if len(answer.Input)+len(answer.Pod) > 0 {
		s.Logf("%s at %s may enter", own.Host, r.RemoteAddr)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
