package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// tried are objects of which an API server is asked whether it takes them as they lie there:
// some that the operator may change. HOST is the name of the server's own node.
var tried = []struct{ what, path string }{
	{"Node HOST", "/api/v1/nodes/HOST"},
	{"Infrastructure cluster", "/apis/config.openshift.io/v1/infrastructures/cluster"},
	{"ClusterOperator " + clusteroperator.Controllers, "/apis/config.openshift.io/v1/clusteroperators/" + clusteroperator.Controllers},
	{"Lease " + render.Name, "/apis/coordination.k8s.io/v1/namespaces/" + render.Namespace + "/leases/" + render.Name},
}

// tryLimit bounds the question about one object, maxAnswer what is read of the answer, in
// bytes.
const (
	tryLimit  = 5 * time.Second
	maxAnswer = 1 << 20
)

// refused says which API servers refuse what lies there. One that has taken it is not asked
// again before another host has taken a step.
func (r *Reconciler) refused(ctx context.Context, addresses map[string]string) state.Fact[[]string] {
	out, all := []string{}, true
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		if r.kept.took[name] {
			continue
		}
		list, err := r.Refuses(ctx, name, addresses[name])
		switch {
		case err != nil:
			all = false
		case len(list) == 0:
			if r.kept.took == nil {
				r.kept.took = map[string]bool{}
			}
			r.kept.took[name] = true
		}
		for _, why := range list {
			out = append(out, name+": "+why)
		}
	}
	if len(out) == 0 && !all {
		return state.Fact[[]string]{}
	}
	return state.Known(out)
}

// Refuses asks the API server of a host, by its own address, whether it takes what lies
// there: a dry run of a patch that changes nothing has it read the object, admit and validate
// it, and write nothing. An object that is not there tells nothing.
func (a APIServers) Refuses(ctx context.Context, host, address string) ([]string, error) {
	c, server, err := a.at(address)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range tried {
		why, err := try(ctx, c, server+strings.ReplaceAll(t.path, "HOST", host))
		if err != nil {
			return nil, err
		}
		if why != "" {
			out = append(out, strings.ReplaceAll(t.what, "HOST", host)+": "+why)
		}
	}
	return out, nil
}

// try returns why an API server refuses an object, empty if it takes it.
func try(ctx context.Context, c *http.Client, url string) (why string, err error) {
	ctx, stop := context.WithTimeout(ctx, tryLimit)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url+"?dryRun=All&fieldManager="+render.Name, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	req.Header.Set("Accept", "application/json")
	answer, err := c.Do(req)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return "", err
	}
	var said metav1.Status
	if answer.StatusCode != http.StatusOK && json.Unmarshal(data, &said) != nil {
		said.Message = answer.Status
	}
	return judge(answer.StatusCode, said.Message)
}

// judge tells a refusal of an object from an answer that tells nothing of it: it is not
// there, the account lacks a right, a webhook knows no dry run, or the server is busy.
func judge(code int, message string) (why string, err error) {
	switch {
	case code == http.StatusOK, code == http.StatusNotFound, strings.Contains(message, "does not support dry run"):
		return "", nil
	case code == http.StatusUnauthorized, code == http.StatusConflict, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError,
		code == http.StatusForbidden && strings.Contains(message, " cannot patch resource "):
		return "", fmt.Errorf("the API server does not say whether it takes the object: %d: %s", code, message)
	}
	return message, nil
}
