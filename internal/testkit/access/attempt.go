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
	// Name tells what the attempt would get, Finding is its row in
	// docs/attacks.md.
	Name, Finding string
	Method, Path  string
	// Body is JSON; for a PATCH it is a strategic merge.
	Body string
	// As is the impersonated user, AsGroups that user's groups.
	As       string
	AsGroups []string
	// Quiet means that the audit log has no line of the attempt if kubelet's
	// account was refused.
	Quiet bool
}

// Answer is an API server's answer.
type Answer struct {
	Status int
	Body   []byte
}

// mostOfAnswer bounds the part of an answer that is stored, in bytes.
const mostOfAnswer = 1 << 20

// Refused reports whether the API server refused: because of the identity, a
// missing right, or a guard.
func (a Answer) Refused() bool {
	return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || a.Status == http.StatusUnprocessableEntity
}

// Try makes the attempt at an API server, with the client's certificate or a
// token. agent identifies it in the audit log.
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

// patchType returns the type of patch that the object's kind takes: objects of
// our own kinds take no strategic merge.
func (a Attempt) patchType() string {
	if strings.HasPrefix(a.Path, "/api/v1/") {
		return "application/strategic-merge-patch+json"
	}
	return "application/merge-patch+json"
}
