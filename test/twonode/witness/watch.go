package witness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Dialer connects to addresses of the cluster's hosts.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// The watched paths, and the times of a watch: a connection to a host that has
// just died never ends by itself.
const (
	pacemakerPath = "/apis/etcd.openshift.io/v1/pacemakerclusters"
	etcdPath      = "/apis/operator.openshift.io/v1/etcds"
	eventsPath    = "/api/v1/namespaces/default/events"
	watchFor      = 8 * time.Second
	tryAgain      = 200 * time.Millisecond
	atOnce        = 2 * time.Second // until an answer begins
)

// API watches through each API server separately. An observation of several
// servers counts from the first one on.
type API struct {
	mu       sync.Mutex
	versions map[string]map[int64]Version // by path
	events   map[string]corev1.Event      // by name
	listed   map[string]bool              // paths that were listed once, by server and path
	end      context.CancelFunc
	done     sync.WaitGroup
}

// StartAPI starts watching through the API servers at these addresses. It
// returns once each server that answers has sent the current state.
func StartAPI(ctx context.Context, config *rest.Config, dial Dialer, addresses []string) (*API, error) {
	ctx, end := context.WithCancel(ctx)
	a := &API{versions: map[string]map[int64]Version{}, events: map[string]corev1.Event{}, listed: map[string]bool{}, end: end}
	for _, address := range addresses {
		c := rest.CopyConfig(config)
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, address) }
		c.NextProtos = []string{"http/1.1"}
		transport, err := rest.TransportFor(c)
		if err != nil {
			end()
			return nil, fmt.Errorf("watch through %s: %w", address, err)
		}
		s := server{api: a, http: &http.Client{Transport: transport}, base: c.Host, name: address}
		for _, path := range []string{pacemakerPath, etcdPath, eventsPath} {
			a.done.Go(func() { s.follow(ctx, path) })
		}
	}
	return a, a.ready(ctx, 3*len(addresses))
}

func (a *API) ready(ctx context.Context, lists int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("the API servers do not list what is to be watched"))
	defer cancel()
	for {
		a.mu.Lock()
		n := len(a.listed)
		a.mu.Unlock()
		if n == lists {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_ = host.Sleep(ctx, tryAgain/4) // the loop checks the context itself
	}
}

// Stop ends the watches.
func (a *API) Stop() {
	a.end()
	a.done.Wait()
}

// Seen returns the observations since a moment: the versions by revision, with
// the last one before it, and the events after it. It leaves out later events
// about earlier times, because an operator that is elected late reports those.
func (a *API) Seen(since time.Time) (versions []Version, events []corev1.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(a.versions)) {
		first := len(versions)
		for _, revision := range slices.Sorted(maps.Keys(a.versions[path])) {
			v := a.versions[path][revision]
			if v.At.Before(since) {
				versions = versions[:first]
			}
			versions = append(versions, v)
		}
	}
	for _, e := range a.events {
		from := since.Add(-time.Second) // the API's times are whole seconds
		if e.CreationTimestamp.After(from) && e.FirstTimestamp.After(from) {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(x, y corev1.Event) int {
		return cmp.Or(x.FirstTimestamp.Compare(y.FirstTimestamp.Time), cmp.Compare(x.Name, y.Name))
	})
	return versions, events
}

// Current returns the newest version of the PacemakerCluster.
func (a *API) Current() Version { return a.newest(pacemakerPath) }

// Judgement returns the current judgement of Pacemaker in the etcd operator's
// object.
func (a *API) Judgement() string { return a.newest(etcdPath).Values[judgement] }

func (a *API) newest(path string) Version {
	a.mu.Lock()
	defer a.mu.Unlock()
	byRevision := a.versions[path]
	if len(byRevision) == 0 {
		return Version{}
	}
	return byRevision[slices.Max(slices.Collect(maps.Keys(byRevision)))]
}

func (a *API) take(path string, raw json.RawMessage, at time.Time) (string, error) {
	var meta struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if path == eventsPath {
		var e corev1.Event
		err := json.Unmarshal(raw, &e)
		if _, known := a.events[e.Name]; !known && e.InvolvedObject.Kind == "PacemakerCluster" {
			a.events[e.Name] = e
		}
		return e.ResourceVersion, err
	}
	revision, err := strconv.ParseInt(meta.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return "", err
	}
	if _, known := a.versions[path][revision]; known {
		return meta.Metadata.ResourceVersion, nil
	}
	list, err := conditionsIn(path, raw)
	if a.versions[path] == nil {
		a.versions[path] = map[int64]Version{}
	}
	a.versions[path][revision] = Version{At: at, Revision: revision, Values: list, Born: meta.Metadata.CreationTimestamp.Time}
	return meta.Metadata.ResourceVersion, err
}

// judged is the condition of etcd's object that follows from Pacemaker's state,
// judgement its subject.
const (
	judged    = "PacemakerHealthCheckDegraded"
	judgement = "etcd: " + judged
)

func conditionsIn(path string, raw json.RawMessage) (map[string]string, error) {
	if path == pacemakerPath {
		var o etcdv1.PacemakerCluster
		err := json.Unmarshal(raw, &o)
		return Conditions(o), err
	}
	var o operatorv1.Etcd
	out := map[string]string{}
	err := json.Unmarshal(raw, &o)
	for _, c := range o.Status.Conditions {
		if c.Type == judged {
			out[judgement] = string(c.Status) + " " + c.Reason
		}
	}
	return out, err
}

// server is one API server, which is followed until the end.
type server struct {
	api        *API
	http       *http.Client
	base, name string
}

// follow lists once and then watches from the last received version, even after
// the server was away.
func (s server) follow(ctx context.Context, path string) {
	last := ""
	for ctx.Err() == nil {
		var err error
		if last == "" {
			last, err = s.list(ctx, path)
		} else {
			last, err = s.watch(ctx, path, last)
		}
		if err != nil && ctx.Err() == nil {
			_ = host.Sleep(ctx, tryAgain) // the loop checks the context itself
		}
	}
}

func (s server) list(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*atOnce)
	defer cancel()
	body, err := s.get(ctx, path, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Body.Close() }()
	var answer struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.NewDecoder(body.Body).Decode(&answer); err != nil {
		return "", err
	}
	for _, item := range answer.Items {
		if _, err := s.api.take(path, item, time.Now()); err != nil {
			return "", err
		}
	}
	s.api.mu.Lock()
	s.api.listed[s.name+path] = true
	s.api.mu.Unlock()
	return answer.Metadata.ResourceVersion, nil
}

// watch returns the last received version. An empty one means to list again,
// because the server no longer knows the later changes.
func (s server) watch(ctx context.Context, path, last string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor+2*atOnce)
	defer cancel()
	query := url.Values{"watch": {"true"}, "resourceVersion": {last}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))}}
	answer, err := s.get(ctx, path, query)
	if err != nil {
		return last, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusGone {
		return "", nil
	}
	for d := json.NewDecoder(answer.Body); ; {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := d.Decode(&e); err != nil {
			return last, err
		}
		switch e.Type {
		case "ERROR":
			return "", fmt.Errorf("watch of %s: %s", path, e.Object)
		case "BOOKMARK":
			var o metav1.PartialObjectMetadata
			if json.Unmarshal(e.Object, &o) == nil {
				last = o.ResourceVersion
			}
		case "DELETED":
		default:
			if last, err = s.api.take(path, e.Object, time.Now()); err != nil {
				return last, err
			}
		}
	}
}

func (s server) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusGone {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return answer, nil
}
