package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// registers is the path of the API's registers, and runLabel the label that
// distinguishes the runs.
const (
	registers = "/api/v1/namespaces/default/configmaps"
	runLabel  = "holdfast.test/run"
)

// StartAPI starts writing ConfigMaps through API servers. Each connection
// carries one request at a time: HTTP/2 would use a dead connection for half a
// minute, which would distort the measurement.
func StartAPI(ctx context.Context, rec *Recorder, shape Shape, run string, dial Dialer, config *rest.Config) (*Load, error) {
	shape = shape.withDefaults()
	var stores []store
	for _, t := range shape.Targets {
		c := rest.CopyConfig(config)
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, t.Address) }
		c.NextProtos = []string{"http/1.1"}
		transport, err := rest.TransportFor(c)
		if err != nil {
			return nil, fmt.Errorf("API of %s: %w", t.Name, err)
		}
		stores = append(stores, apiStore{http: &http.Client{Transport: transport}, base: c.Host, run: run})
	}
	after, err := newestList(ctx, stores, shape.Timeout)
	if err != nil {
		return nil, err
	}
	return start(ctx, rec, shape, stores, run+"-", after), nil
}

func newestList(ctx context.Context, stores []store, timeout time.Duration) (int64, error) {
	var errs []error
	for _, s := range stores {
		api, ok := s.(apiStore)
		if !ok {
			continue
		}
		once, cancel := context.WithTimeout(ctx, timeout)
		revision, err := api.newest(once)
		cancel()
		if err == nil {
			return revision, nil
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("no API server answers: %w", errors.Join(errs...))
}

// configMap holds the fields of a ConfigMap, or of a list of them, that the
// registers need.
type configMap struct {
	Metadata metadata          `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
}

func (m configMap) revision() int64 {
	n, _ := strconv.ParseInt(m.Metadata.ResourceVersion, 10, 64) // 0 means that there is none
	return n
}

type apiStore struct {
	http *http.Client
	base string
	run  string
}

// write replaces the register, whatever it holds, or creates it.
func (s apiStore) write(ctx context.Context, key, value string) (int64, Outcome, error) {
	object := configMap{Metadata: metadata{Name: key, Labels: map[string]string{runLabel: s.run}}, Data: map[string]string{"v": value}}
	var answer configMap
	status, err := s.call(ctx, http.MethodPut, registers+"/"+key, object, &answer)
	if status == http.StatusNotFound {
		status, err = s.call(ctx, http.MethodPost, registers, object, &answer)
	}
	if err != nil {
		return 0, outcome(status, err), err
	}
	return answer.revision(), OK, nil
}

// outcome tells what is known about a failed request. It was not carried out if
// there was no connection or the server refused it.
func outcome(status int, err error) Outcome {
	var dialed *net.OpError
	if errors.As(err, &dialed) && dialed.Op == "dial" || status >= 400 && status < 500 {
		return Failed
	}
	return Unknown
}

// read returns no revision: the answer has that of the last write to this
// object, not that of the read.
func (s apiStore) read(ctx context.Context, key string) (string, int64, error) {
	var answer configMap
	status, err := s.call(ctx, http.MethodGet, registers+"/"+key, nil, &answer)
	if status == http.StatusNotFound {
		return "", 0, nil
	}
	return answer.Data["v"], 0, err
}

// newest returns the revision of a list.
func (s apiStore) newest(ctx context.Context) (int64, error) {
	var list configMap
	_, err := s.call(ctx, http.MethodGet, registers+"?limit=1", nil, &list)
	return list.revision(), err
}

// call returns the HTTP status, 0 if there is no answer.
func (s apiStore) call(ctx context.Context, method, path string, in, out any) (int, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	if in == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return resp.StatusCode, fmt.Errorf("HTTP status %d: %.150s", resp.StatusCode, data)
	}
	return resp.StatusCode, json.Unmarshal(data, out)
}

// silence is the longest time that a watch may be silent while clients write: a
// dead host's connection is silent forever.
const silence = 3 * time.Second

func (s apiStore) watch(ctx context.Context, after int64, see func(key, value string, revision int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"watch": {"1"}, "labelSelector": {runLabel + "=" + s.run}, "resourceVersion": {strconv.FormatInt(after, 10)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+registers+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusGone {
		return errLost
	}
	for stream := json.NewDecoder(resp.Body); ; quiet.Reset(silence) {
		if err := nextEvent(stream, see); err != nil {
			return err
		}
	}
}

func nextEvent(stream *json.Decoder, see func(key, value string, revision int64)) error {
	var raw struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := stream.Decode(&raw); err != nil {
		return err
	}
	if raw.Type == "ERROR" {
		return statusError(raw.Object)
	}
	var object configMap
	if err := json.Unmarshal(raw.Object, &object); err != nil {
		return err
	}
	if raw.Type == "ADDED" || raw.Type == "MODIFIED" {
		see(object.Metadata.Name, object.Data["v"], object.revision())
	}
	return nil
}

func statusError(object []byte) error {
	var status struct{ Code int }
	if err := json.Unmarshal(object, &status); err != nil {
		return err
	}
	if status.Code == http.StatusGone {
		return errLost
	}
	return fmt.Errorf("the watch ended with status %d", status.Code)
}

func (s apiStore) close() { s.http.CloseIdleConnections() }
