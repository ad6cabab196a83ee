package access

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Attempt is a request to an API server that nobody on a worker may make.
type Attempt struct {
	// Name says what it would get, Finding its row in docs/attacks.md.
	Name, Finding string
	Method, Path  string
	// Body is JSON; of a PATCH a strategic merge.
	Body string
	// As is the user in whose name it is made, with what groups.
	As       string
	AsGroups []string
	// Quiet says that the audit log has no line of it where kubelet is the one
	// that is refused.
	Quiet bool
}

// Answer is what an API server said.
type Answer struct {
	Status int
	Body   []byte
}

// mostOfAnswer bounds what is kept of an answer, in bytes.
const mostOfAnswer = 1 << 20

// Refused reports whether it said no: to who asks, to what he may, or by a guard.
func (a Answer) Refused() bool {
	return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || a.Status == http.StatusUnprocessableEntity
}

// Try makes the attempt at an API server, by the client's certificate or a
// token. The audit log knows it by the agent.
func (a Attempt) Try(ctx context.Context, client *http.Client, server, token, agent string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, a.Method, server+a.Path, strings.NewReader(a.Body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Content-Type", "application/json")
	if a.Method == http.MethodPatch {
		req.Header.Set("Content-Type", a.patchType())
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if a.As != "" {
		req.Header.Set("Impersonate-User", a.As)
	}
	for _, g := range a.AsGroups {
		req.Header.Add("Impersonate-Group", g)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostOfAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{Status: resp.StatusCode, Body: bytes.TrimSpace(body)}, nil
}

// patchType is what each kind takes: objects of our own kinds take no strategic
// merge.
func (a Attempt) patchType() string {
	if strings.HasPrefix(a.Path, "/api/v1/") {
		return "application/strategic-merge-patch+json"
	}
	return "application/merge-patch+json"
}
