package bmc

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	rootPath     = "/redfish/v1"
	systemsPath  = rootPath + "/Systems"
	chassisPath  = rootPath + "/Chassis"
	managersPath = rootPath + "/Managers"
	servicePath  = rootPath + "/SessionService"
	sessionsPath = servicePath + "/Sessions"
	managerPath  = managersPath + "/BMC"
	nicsPath     = managerPath + "/EthernetInterfaces"
	mediaPath    = managerPath + "/VirtualMedia"
	resetAction  = "/Actions/ComputerSystem.Reset"
	resetInfo    = "/ResetActionInfo"
)

type handler func(*http.Request) reply

// resource is the target of a path: a handler per method.
type resource struct {
	methods map[string]handler
	// public resources need no authentication.
	public bool
	// openPost resources need none for POST, with which a client logs in.
	openPost bool
}

func (r resource) open(method string) bool { return r.openPost && method == http.MethodPost }

// call runs the method, or lists the allowed ones in its answer.
func (r resource) call(req *http.Request) reply {
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := r.methods[method]; ok {
		return h(req)
	}
	return fault(http.StatusMethodNotAllowed, "OperationNotAllowed",
		"The HTTP method is not allowed on this resource.", "Use one of the methods of the header Allow.").
		with("Allow", strings.Join(r.allow(), ", "))
}

func (r resource) allow() []string {
	allow := slices.Collect(maps.Keys(r.methods))
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	return allow
}

// readOnly returns a resource that can only be read.
func readOnly(body func() object) resource {
	return resource{methods: map[string]handler{
		http.MethodGet: func(*http.Request) reply { return found(body()) },
	}}
}

func postOnly(h handler) resource {
	return resource{methods: map[string]handler{http.MethodPost: h}}
}

// find returns the resource of a path.
func (s *Server) find(path string) (resource, bool) {
	path = strings.TrimSuffix(path, "/")
	if fixed, ok := s.fixed(path); ok {
		return fixed, true
	}
	if rest, ok := strings.CutPrefix(path, systemsPath+"/"); ok {
		return s.findSystem(rest)
	}
	if id, ok := strings.CutPrefix(path, sessionsPath+"/"); ok {
		return s.findSession(id)
	}
	return resource{}, false
}

// fixed finds the resources that exist in every state.
func (s *Server) fixed(path string) (resource, bool) {
	switch path {
	case "/redfish":
		return public(readOnly(versions)), true
	case rootPath:
		return public(readOnly(func() object { return serviceRoot(s.identity()) })), true
	case rootPath + "/odata":
		return public(readOnly(odata)), true
	case rootPath + "/$metadata":
		return public(metadata()), true
	case systemsPath:
		return readOnly(func() object { return collection(systemsPath, "ComputerSystem", s.systemIDs()) }), true
	case chassisPath:
		return readOnly(func() object { return collection(chassisPath, "Chassis", []string{"1"}) }), true
	case chassisPath + "/1":
		return readOnly(func() object { return chassis(s.identity(), s.SystemPath()) }), true
	case managersPath:
		return readOnly(func() object { return collection(managersPath, "Manager", []string{"BMC"}) }), true
	case managerPath:
		return readOnly(func() object { return manager(s.SystemPath(), s.Quirks().Medium) }), true
	case nicsPath:
		return readOnly(func() object { return collection(nicsPath, "EthernetInterface", []string{"eth0"}) }), true
	case nicsPath + "/eth0":
		return readOnly(func() object { return managerNIC(s.cfg.Name) }), true
	case mediaPath, mediaPath + "/CD":
		if !s.Quirks().Medium {
			return resource{}, false
		}
		return readOnly(func() object { return media(path) }), true
	case servicePath:
		return readOnly(func() object { return sessionService(s.Quirks().sessionTimeout()) }), true
	case sessionsPath:
		return s.sessionCollection(), true
	}
	return resource{}, false
}

func public(r resource) resource {
	r.public = true
	return r
}

// metadata returns the OData schema document. Clients of this simulator never
// need its contents.
func metadata() resource {
	const document = `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0"/>` + "\n"
	return resource{methods: map[string]handler{
		http.MethodGet: func(*http.Request) reply { return reply{status: http.StatusOK, body: document} },
	}}
}

// findSystem finds a system, ours or another machine's, and the resources below
// it.
func (s *Server) findSystem(rest string) (resource, bool) {
	id, below, _ := strings.Cut(rest, "/")
	if !slices.Contains(s.systemIDs(), id) {
		return resource{}, false
	}
	ours := id == s.cfg.SystemID
	switch "/" + below {
	case "/":
		if ours {
			return resource{methods: map[string]handler{http.MethodGet: s.getSystem}}, true
		}
		return readOnly(func() object { return s.neighbour(id) }), true
	case resetInfo:
		return readOnly(func() object { return actionInfo(systemsPath + "/" + id) }), true
	case resetAction:
		if ours {
			return postOnly(s.postReset), true
		}
		return postOnly(func(r *http.Request) reply { return s.resetNeighbour(id, r) }), true
	}
	return resource{}, false
}

func (s *Server) getSystem(r *http.Request) reply {
	q := s.Quirks()
	state, err := s.look(r.Context(), time.Duration(q.Stale))
	if err != nil {
		s.log.Error("cannot read the power", "error", err)
		return internal("The state of the system's power is not known.")
	}
	return found(system(s.identity(), s.SystemPath(), q, state))
}

// glance is a reading of the power, and its time.
type glance struct {
	state State
	at    time.Time
}

// look reads the power, or returns a reading that is younger than stale.
func (s *Server) look(ctx context.Context, stale time.Duration) (State, error) {
	s.mu.Lock()
	last := s.glance
	s.mu.Unlock()
	if time.Since(last.at) < stale {
		return last.state, nil
	}
	state, err := s.power.observe(ctx)
	if err == nil {
		s.mu.Lock()
		s.glance = glance{state, time.Now()}
		s.mu.Unlock()
	}
	return state, err
}

type resetRequest struct {
	ResetType *ResetType
}

// postReset requests a reset of our system, as far as the quirks let it.
func (s *Server) postReset(r *http.Request) reply {
	t, problem, ok := readReset(r)
	if !ok {
		return problem
	}
	if problem, no := s.Quirks().misled(r); no {
		return problem
	}
	out := s.resetOurs(r, t)
	s.record(Reset{At: time.Now(), Type: t, From: r.RemoteAddr, Status: out.status})
	return out
}

func readReset(r *http.Request) (ResetType, reply, bool) {
	var req resetRequest
	if problem, ok := decode(r, &req); !ok {
		return "", problem, false
	}
	if req.ResetType == nil {
		return "", fault(http.StatusBadRequest, "ActionParameterMissing",
			"The parameter ResetType is missing.", "Send ResetType."), false
	}
	return *req.ResetType, reply{}, true
}

// misled returns the refusal of a request that is not made as the quirks want
// it. It returns false if the request is fine.
func (q Quirks) misled(r *http.Request) (reply, bool) {
	match := r.Header.Get("If-Match")
	switch {
	case q.NeedsSlash && !strings.HasSuffix(r.URL.Path, "/"):
		return reply{status: http.StatusPermanentRedirect}.with("Location", r.URL.Path+"/"), true
	case q.IfMatch == IfMatchNeeded && match == "":
		return fault(http.StatusPreconditionRequired, "PreconditionRequired", "The request names no state.", "Send If-Match."), true
	case q.IfMatch == IfMatchRefused && match != "":
		return fault(http.StatusPreconditionFailed, "PreconditionFailed", "The request names a state.", "Send no If-Match."), true
	}
	return reply{}, false
}

func (s *Server) resetOurs(r *http.Request, t ResetType) reply {
	q := s.Quirks()
	off := s.power.offFor()
	switch {
	case q.AcceptAndIgnore, s.drops(q), t == ResetOn && off > 0 && off < time.Duration(q.DropOnAfterOff):
		return reply{status: http.StatusAccepted}
	case t == ResetOn && off > 0 && off < time.Duration(q.RefuseOnAfterOff):
		return refusedReset(t, ErrBusy)
	}
	if q.LateReset > 0 {
		time.AfterFunc(time.Duration(q.LateReset), func() { //nolint:contextcheck // what was accepted outlives who asked
			if err := s.power.reset(context.Background(), t); err != nil {
				s.log.Warn("reset failed later", "type", t, "error", err)
			}
		})
		return reply{status: http.StatusAccepted}
	}
	err := s.power.reset(r.Context(), t)
	switch {
	case errors.Is(err, ErrAlreadyOff) && q.StatusWhenOff != 0:
		return fault(q.StatusWhenOff, "InvalidOperationForSystemState", "The operation was not successful due to the current power state.", "Read PowerState first.")
	case err != nil:
		s.log.Warn("reset refused", "type", t, "error", err)
		return refusedReset(t, err)
	case q.ErrorYetActs:
		return internal("The operation failed.")
	}
	return reply{status: http.StatusNoContent}
}

// drops reports whether the quirk drop-resets is still in force, and counts the
// resets.
func (s *Server) drops(q Quirks) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped++
	return s.dropped <= q.DropResets
}

// resetNeighbour switches another machine, which obeys at once.
func (s *Server) resetNeighbour(id string, r *http.Request) reply {
	t, problem, ok := readReset(r)
	if !ok {
		return problem
	}
	next, _, err := Step(s.neighbourState(id), Event{Kind: EventReset, Reset: t}, time.Now(), Behaviour{})
	if err != nil {
		return refusedReset(t, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.neighbours[id] = next.Shown() == PowerOn
	return reply{status: http.StatusNoContent}
}

func (s *Server) sessionCollection() resource {
	return resource{openPost: true, methods: map[string]handler{
		http.MethodGet: func(*http.Request) reply {
			return found(collection(sessionsPath, "Session", s.sessions.ids(time.Now(), s.Quirks().sessionTimeout())))
		},
		http.MethodPost: s.postSession,
	}}
}

// postSession logs a client in.
func (s *Server) postSession(r *http.Request) reply {
	q := s.Quirks()
	if q.AuthStatus != 0 {
		return refused(q.AuthStatus)
	}
	var req struct{ UserName, Password string }
	if problem, ok := decode(r, &req); !ok {
		return problem
	}
	if !s.credentials(req.UserName, req.Password) {
		return refused(http.StatusUnauthorized)
	}
	opened, ok := s.sessions.create(time.Now(), q.sessionTimeout(), sessionLimit-q.SessionsHeld)
	if !ok {
		return fault(http.StatusServiceUnavailable, "SessionLimitExceeded",
			"The session could not be opened, since the limit of simultaneous sessions is reached.",
			"Close a session that is not needed any more.")
	}
	path := sessionsPath + "/" + opened.id
	return reply{
		status: http.StatusCreated, body: sessionBody(opened.id, req.UserName),
		header: map[string]string{"X-Auth-Token": opened.token, "Location": path},
	}
}

func (s *Server) findSession(id string) (resource, bool) {
	if !slices.Contains(s.sessions.ids(time.Now(), s.Quirks().sessionTimeout()), id) {
		return resource{}, false
	}
	return resource{methods: map[string]handler{
		http.MethodGet: func(*http.Request) reply { return found(sessionBody(id, s.cfg.Username)) },
		http.MethodDelete: func(r *http.Request) reply {
			if !s.sessions.remove(id) {
				return missing(r.URL.Path)
			}
			return reply{status: http.StatusNoContent}
		},
	}}, true
}
