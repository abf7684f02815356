/* tables.h: the tables of builtins, each in the file that defines its functions; jinja.c puts them together.
 */
#ifndef LAP_JINJA_TABLES_H
#define LAP_JINJA_TABLES_H

#include "jinja/builtin.h"

extern const builtin lap_jinja_text_filters[], lap_jinja_number_filters[], lap_jinja_sequence_filters[],
    lap_jinja_select_filters[], lap_jinja_json_filters[];
extern const builtin lap_jinja_tests[], lap_jinja_functions[];
extern const builtin lap_jinja_text_methods[], lap_jinja_list_methods[], lap_jinja_tuple_methods[],
    lap_jinja_dict_methods[], lap_jinja_loop_methods[], lap_jinja_cycler_methods[];

#endif
