package apply

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// DefaultWait is the time that a host waits for the servers of its
// configuration: it boots before they exist.
const DefaultWait = 30 * time.Minute

// Fetcher gets the resources to which a configuration points.
type Fetcher struct {
	// Wait bounds all attempts together; zero means one attempt for each resource.
	Wait time.Duration
	// Now and Sleep are the clock. Sleep ends early, with an error, if the context
	// ends.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Say reports to people what the fetcher waits for; may be nil.
	Say func(line string)

	deadline time.Time
	// system replaces the host's list of authorities in tests.
	system func() (*x509.CertPool, error)
}

func (f *Fetcher) systemRoots() (*x509.CertPool, error) {
	if f.system != nil {
		return f.system()
	}
	return x509.SystemCertPool()
}

// maxDepth bounds the depth to which configurations may point to others.
const maxDepth = 8

// Resolve returns a configuration with everything that it points to fetched,
// merged by Ignition's own rules, and inline. That covers the configurations in
// ignition.config and the contents of files. The error is an *InputError if a
// configuration is wrong.
func (f *Fetcher) Resolve(ctx context.Context, cfg types.Config) (types.Config, error) {
	f.deadline = f.Now().Add(f.Wait)
	cfg, err := f.resolve(ctx, cfg, scope{}, 0)
	if err != nil {
		return types.Config{}, err
	}
	// The settings for fetching, among them tokens, are no longer needed.
	cfg.Ignition = types.Ignition{Version: ignition.Newest}
	return valid(cfg)
}

// valid checks a merged configuration: merging two valid ones may give an
// invalid one.
func valid(cfg types.Config) (types.Config, error) {
	raw, err := json.Marshal(cfg)
	if err != nil {
		return types.Config{}, err
	}
	cfg, err = ignition.Parse(raw)
	if err != nil {
		return types.Config{}, &InputError{Err: fmt.Errorf("merged configuration: %w", err)}
	}
	return cfg, nil
}

func (f *Fetcher) resolve(ctx context.Context, cfg types.Config, sc scope, depth int) (types.Config, error) {
	if depth > maxDepth {
		return types.Config{}, &InputError{Err: fmt.Errorf("ignition.config: the chain of pointers is longer than %d", maxDepth)}
	}
	sc, err := f.enter(ctx, cfg.Ignition, sc)
	if err != nil {
		return types.Config{}, err
	}
	defer sc.client.CloseIdleConnections()
	if cfg.Ignition.Config.Replace.Source != nil {
		return f.further(ctx, "ignition.config.replace", cfg.Ignition.Config.Replace, sc, depth)
	}
	merged, err := f.inline(ctx, cfg, sc)
	if err != nil {
		return types.Config{}, err
	}
	for i, ref := range cfg.Ignition.Config.Merge {
		child, err := f.further(ctx, fmt.Sprintf("ignition.config.merge.%d", i), ref, sc, depth)
		if err != nil {
			return types.Config{}, err
		}
		merged = v35.Merge(merged, child)
	}
	return merged, nil
}

// further fetches a configuration and then resolves that one.
func (f *Fetcher) further(ctx context.Context, field string, ref types.Resource, sc scope, depth int) (types.Config, error) {
	raw, err := f.resource(ctx, field, ref, sc, maxConfigBytes)
	if err != nil {
		return types.Config{}, err
	}
	cfg, err := ignition.Parse(raw)
	if err != nil {
		return types.Config{}, &InputError{Err: fmt.Errorf("%s: %w", field, err)}
	}
	return f.resolve(ctx, cfg, sc, depth+1)
}

// inline puts the contents of remote files into the configuration.
func (f *Fetcher) inline(ctx context.Context, cfg types.Config, sc scope) (types.Config, error) {
	for i := range cfg.Storage.Files {
		file := &cfg.Storage.Files[i]
		field := fmt.Sprintf("storage.files.%d", i)
		parts := map[string]*types.Resource{field + ".contents": &file.Contents}
		for j := range file.Append {
			parts[fmt.Sprintf("%s.append.%d", field, j)] = &file.Append[j]
		}
		for field, res := range parts {
			if ignition.Inline(*res) {
				continue
			}
			data, err := f.resource(ctx, field, *res, sc, ignition.MaxResourceBytes)
			if err != nil {
				return types.Config{}, err
			}
			*res = types.Resource{Source: new(ignition.DataURL(data))}
		}
	}
	return cfg, nil
}

// maxConfigBytes bounds a fetched configuration, in bytes.
const maxConfigBytes = 64 << 20

// resource returns the bytes of a resource. It tries until the deadline, unless
// another attempt cannot help.
func (f *Fetcher) resource(ctx context.Context, field string, res types.Resource, sc scope, limit int64) ([]byte, error) {
	if ignition.Inline(res) {
		data, err := ignition.Contents(res)
		if err != nil {
			return nil, &InputError{Err: fmt.Errorf("%s.%w", field, err)}
		}
		return data, nil
	}
	req, err := newRequest(field, res)
	if err != nil {
		return nil, err
	}
	req.limit = limit
	data, err := f.retry(ctx, req, sc)
	if err != nil {
		return nil, err
	}
	data, err = ignition.Unpack(res, data)
	if err != nil {
		return nil, &InputError{Err: fmt.Errorf("%s.%w (from %s)", field, err, req.shown)}
	}
	return data, nil
}

// The pause between attempts grows from the first to the last value.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 4 * time.Second
	// sayEvery is the time between two messages about the same reason for waiting.
	sayEvery = 30 * time.Second
)

func (f *Fetcher) retry(ctx context.Context, req request, sc scope) ([]byte, error) {
	var said time.Time
	var reason string
	start, deadline := f.Now(), f.deadline
	if end := start.Add(sc.total); sc.total > 0 && end.Before(deadline) {
		deadline = end
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		data, err := sc.get(ctx, req)
		if err == nil {
			return data, nil
		}
		if final, ok := errors.AsType[*finalError](err); ok {
			return nil, fmt.Errorf("fetch %s: %w", req.shown, final.err)
		}
		now := f.Now()
		if ctx.Err() != nil || !now.Add(pause).Before(deadline) {
			return nil, fmt.Errorf("fetch %s: given up after %s: %w", req.shown, now.Sub(start).Round(time.Second), err)
		}
		if err.Error() != reason || now.Sub(said) >= sayEvery {
			reason, said = err.Error(), now
			f.say("waiting for %s since %s, up to %s more: %v", req.shown, now.Sub(start).Round(time.Second), deadline.Sub(now).Round(time.Second), err)
		}
		if err := f.Sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("fetch %s: %w", req.shown, err)
		}
	}
}

func (f *Fetcher) say(format string, args ...any) {
	if f.Say != nil {
		f.Say(fmt.Sprintf(format, args...))
	}
}
