// A plugin of GCC's: `#pragma musadata instantiate` carries out the pending template instantiations, as the end of a
// unit does. GCC's headers for plugins are rarely installed, so the few names that it takes are declared here.
struct cpp_reader;
void c_register_pragma(const char* space, const char* name, void (*handler)(cpp_reader*));
void instantiate_pending_templates(int retries);

extern "C" {
int plugin_is_GPL_compatible;
int get_named_event_id(const char* name, int insert);
void register_callback(const char* plugin, int event, void (*callback)(void*, void*), void* data);
}

static void instantiate(cpp_reader*) { instantiate_pending_templates(0); }

static void register_pragma(void*, void*) { c_register_pragma("musadata", "instantiate", instantiate); }

extern "C" int plugin_init(void*, void*) {
  const int event = get_named_event_id("PLUGIN_PRAGMAS", 0);
  if (event < 0) {
    return 1;
  }
  register_callback("musadata", event, register_pragma, nullptr);
  return 0;
}
